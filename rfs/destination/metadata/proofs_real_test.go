package metadata_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// proof is what a real source says (testing/proofs writes it).
type proof struct {
	Rules     []string
	Source    string
	Settings  map[string]string
	Mappings  map[string]json.RawMessage
	Documents []struct {
		ID, Type, Routing string
		Source            json.RawMessage
	}
	Query      json.RawMessage
	Equivalent json.RawMessage
	IDs        []string
}

// typed are the mappings by type, as snapshots hold them.
func (p proof) typed(t *testing.T) []metadata.Mapping {
	var all []metadata.Mapping
	if strings.HasPrefix(p.Source, "2.") || strings.HasPrefix(p.Source, "5.") || strings.HasPrefix(p.Source, "6.") {
		for typ, body := range p.Mappings {
			all = append(all, metadata.Mapping{Type: typ, Body: body})
		}
		slices.SortFunc(all, func(a, b metadata.Mapping) int { return strings.Compare(a.Type, b.Type) })
		return all
	}
	body, err := json.Marshal(p.Mappings)
	if err != nil {
		t.Fatal(err)
	}
	return []metadata.Mapping{{Type: "_doc", Body: body}}
}

// TestARealTargetFindsWhatTheSourceFound creates every index that a real source described, on
// real targets, by the rules, sends the same documents and asks the same query.
func TestARealTargetFindsWhatTheSourceFound(t *testing.T) {
	files, err := filepath.Glob("testdata/proofs/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no proofs: %v", err)
	}
	targets(t, func(t *testing.T, c *target.Client, v target.Version) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var p proof
				if err := json.Unmarshal(b, &p); err != nil {
					t.Fatal(err)
				}
				prove(t, c, v, p)
			})
		}
	})
}

func prove(t *testing.T, c *target.Client, v target.Version, p proof) {
	const name = "proof"
	ctx := t.Context()
	w := metadata.Wanted{Name: name, Index: metadata.Index{Name: name, Settings: p.Settings, Mappings: p.typed(t)}}
	defer func() {
		if _, _, err := c.Do(ctx, "DELETE", "/"+name, nil, nil); err != nil {
			t.Error(err)
		}
	}()
	done, err := objects.Ensure(ctx, c, v, []metadata.Wanted{w})
	if err != nil || !slices.Equal(done.Created, []string{name}) {
		t.Fatalf("%+v, %v", done, err)
	}
	var body strings.Builder
	for _, d := range p.Documents {
		action, err := json.Marshal(map[string]any{"index": map[string]string{"_index": name, "_id": d.ID, "routing": d.Routing}})
		if err != nil {
			t.Fatal(err)
		}
		var line map[string]json.RawMessage
		if err := json.Unmarshal(d.Source, &line); err != nil {
			t.Fatal(err)
		}
		source, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		action = []byte(strings.Replace(string(action), `,"routing":""`, "", 1))
		fmt.Fprintf(&body, "%s\n%s\n", action, source)
	}
	if sent, err := c.Send(ctx, []byte(body.String()), len(p.Documents)); err != nil || len(sent.Refused) > 0 {
		t.Fatalf("documents: %+v, %v", sent, err)
	}
	if err := c.Refresh(ctx, name); err != nil {
		t.Fatal(err)
	}
	lacks := slices.ContainsFunc(done.Changes, func(ch metadata.Change) bool {
		return ch.Rule == "elastic-type" && strings.Contains(ch.Detail, "not indexed")
	})
	if lacks {
		t.Skipf("this assembly of the target lacks a module, and that was told: %+v", done.Changes)
	}
	query := p.Query
	if len(p.Equivalent) > 0 {
		query = p.Equivalent
	}
	status, answer, err := c.Do(ctx, "POST", "/"+name+"/_search", url.Values{"size": {"100"}}, []byte(`{"query":`+string(query)+`}`))
	if err != nil || status != 200 {
		t.Fatalf("query: %d %s, %v", status, answer, err)
	}
	var found struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, h := range found.Hits.Hits {
		ids = append(ids, h.ID)
	}
	if slices.Sort(ids); !slices.Equal(ids, p.IDs) {
		t.Errorf("found %v, the source %v; changes %+v", ids, p.IDs, done.Changes)
	}
	for _, rule := range p.Rules {
		if !slices.ContainsFunc(metadata.Rules(), func(r metadata.Rule) bool { return r.Name == rule }) {
			t.Errorf("there is no rule %s", rule)
		}
	}
	asReadBack(t, c, v, w, done)
}

// asReadBack holds what the target says it created to what was asked: it has no templates of its own.
func asReadBack(t *testing.T, c *target.Client, v target.Version, w metadata.Wanted, done objects.Result) {
	if slices.ContainsFunc(done.Changes, func(ch metadata.Change) bool {
		return strings.HasPrefix(ch.Rule, "unknown-") || ch.Rule == "dense-vector"
	}) {
		return // it was offered again without
	}
	asked, err := metadata.ConvertIndex(v, w)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := c.Do(t.Context(), "GET", "/"+w.Name, nil, nil)
	if err != nil || status != 200 {
		t.Fatalf("read back: %d %s, %v", status, answer, err)
	}
	differences, err := objects.Differences(asked.Body, answer)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		// Fields that documents brought are none of the creation.
		if !strings.HasPrefix(d.Path, "properties") || !strings.Contains(d.Detail, "added") {
			t.Errorf("read back: %s: %s", d.Path, d.Detail)
		}
	}
}
