package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/creationtest"
)

// mapped is a target with mappings by index; its simulation takes everything but what it refuses.
type mapped struct {
	objects.DryRunTarget
	mappings map[string]string
	refuses  string // a part of what is simulated; "": nothing
	status   int
	err      error // of GetIndex
}

func (m *mapped) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
	if method == http.MethodPost && path == "/_index_template/_simulate" {
		if m.status != 0 && (m.refuses == "" || strings.Contains(string(body), m.refuses)) {
			return m.status, []byte(`{"error":{"type":"mapper_parsing_exception","reason":"No handler for type [integer] declared on field [n]"},"status":400}`), nil
		}
		return http.StatusOK, []byte(`{}`), nil
	}
	return http.StatusOK, []byte(`{}`), nil
}

func (m *mapped) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	if m.err != nil {
		return nil, m.err
	}
	var all []target.Index
	for _, index := range slices.Sorted(maps.Keys(m.mappings)) {
		if index == name || strings.HasPrefix(index, ".ds-"+name+"-") {
			all = append(all, target.Index{Name: index, Mappings: json.RawMessage(m.mappings[index])})
		}
	}
	if len(all) == 0 {
		return nil, &fault.StatusError{Status: http.StatusNotFound}
	}
	return all, nil
}

// TestFieldComparison compares the mapping of an index of a real snapshot with made-up ones of the target.
func TestFieldComparison(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	planned.Indices = slices.DeleteFunc(planned.Indices, func(x plan.Index) bool { return x.Name != "catalogue" })
	var source struct{ Properties map[string]any }
	if err := json.Unmarshal(planned.Indices[0].Source.Mappings[0].Body, &source); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", source.Properties)
	names := []string{}
	for name := range source.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	whole := func(change func(p map[string]any)) string {
		b, err := json.Marshal(source)
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]map[string]any
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		p := c["Properties"]
		change(p)
		b, err = json.Marshal(map[string]any{"properties": p, "_meta": map[string]any{"x": 1}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := names[0]
	for _, c := range []struct {
		name    string
		mapping string // "": the target has no such index
		on      mapped
		failed  func(string, []byte) bool
		types   bool
		want    int
		warns   bool
		err     bool
	}{
		{name: "as it was created", mapping: whole(func(map[string]any) {})},
		{name: "with further fields", mapping: whole(func(p map[string]any) { p["dynamic"] = map[string]string{"type": "long"} })},
		{name: "a field of another type", mapping: whole(func(p map[string]any) { p[one] = map[string]string{"type": "binary"} }), want: 1},
		{name: "a field is missing", mapping: whole(func(p map[string]any) { delete(p, one) }), want: 1},
		{name: "no mapping at all", mapping: `{}`, want: len(names)},
		{name: "a field is missing, and only types are compared", mapping: whole(func(p map[string]any) { delete(p, one) }), types: true},
		{name: "no document with the missing field arrived", mapping: `{"dynamic":"strict"}`, failed: func(string, []byte) bool { return true }},
		{name: "a field is missing, and other documents failed", mapping: whole(func(p map[string]any) { delete(p, one) }), failed: func(string, []byte) bool { return false }, want: 1},
		{name: "the index is missing"},
		{name: "the mapping is not one", mapping: `{`, warns: true},
		{name: "the target does not simulate at the moment", mapping: `{}`, on: mapped{status: 503}, err: true},
		{name: "templates may not be simulated", mapping: whole(func(p map[string]any) { p[one] = map[string]string{"type": "binary"} }), on: mapped{status: 403}, want: 1},
		{name: "the target refuses the mapping", mapping: `{}`, on: mapped{status: 400}, warns: true},
		{name: "mappings may not be read", on: mapped{err: fault.ErrConfig}, warns: true},
		{name: "the target does not answer", on: mapped{err: fault.ErrUnavailable}, err: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.on.mappings = map[string]string{}; c.mapping != "" {
				c.on.mappings["catalogue"] = c.mapping
			}
			x := Fields{Source: Comparison{Repo: blobs}, Target: &c.on, Failed: c.failed, TypesOnly: c.types,
				Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: &c.on}, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}}
			all, warnings, err := x.Fields(t.Context(), planned)
			if (err != nil) != c.err || (len(warnings) > 0) != c.warns || len(all["catalogue"]) != c.want {
				t.Errorf("%v, warnings %v, %v", all, warnings, err)
			}
			r := &verify.Report{Indices: []*verify.Index{{Target: "catalogue", State: verify.Equal, Fields: all["catalogue"]}}}
			if r.Conclude(); (r.State == verify.Different) != (c.want > 0) {
				t.Errorf("the report is %s", r.State)
			}
		})
	}
}

// TestFieldComparison_DataStream: the fields of a stream agree with the snapshot when one of its backing indices there has the type, and
// are missing when no backing index of the target has them.
func TestFieldComparison_DataStream(t *testing.T) {
	mapping := func(fields string) string { return `{"properties":{` + fields + `}}` }
	const a, b = `"n":{"type":"long"},"s":{"type":"text"}`, `"n":{"type":"long"},"s":{"type":"keyword"},"late":{"type":"date"}`
	for _, c := range []struct {
		name   string
		target []string // mappings of the backing indices
		want   string
	}{
		{"as the last backing index", []string{mapping(b)}, "[]"},
		{"as one of them", []string{mapping(a + `,"late":{"type":"date"}`)}, "[]"},
		{"as both", []string{mapping(a), mapping(b)}, "[]"},
		{"another type in one of them", []string{mapping(b), mapping(`"n":{"type":"keyword"},"s":{"type":"keyword"}`)}, "[{n long keyword}]"},
		{"another type in both", []string{mapping(`"n":{"type":"double"},"s":{"type":"text"}`), mapping(`"n":{"type":"double"}`)}, "[{n long double}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := mapped{mappings: map[string]string{}}
			for n, m := range c.target {
				on.mappings[fmt.Sprintf(".ds-events-%06d", n+7)] = m
			}
			p := &plan.Plan{}
			for n, m := range []string{mapping(a), mapping(b)} {
				name := fmt.Sprintf(".ds-events-%06d", n+1)
				p.Indices = append(p.Indices, plan.Index{Name: name, Source: &snapshot.Index{Name: name, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(m)}}},
					Entry: plan.Entry{Naming: plan.Naming{Index: "events"}, Create: true, Stream: &metadata.StreamPart{Stream: "events"}}})
			}
			x := Fields{Target: &on, TypesOnly: true, Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: &on}, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}}
			all, warnings, err := x.Fields(t.Context(), p)
			if got := fmt.Sprint(all["events"]); err != nil || len(warnings) > 0 || got != c.want {
				t.Errorf("%s, want %s; warnings %v, %v", got, c.want, warnings, err)
			}
		})
	}
}

// TestFieldComparison_MappingTypes: an index that keeps its mapping type is compared on targets that state the type, and on those that do not.
func TestFieldComparison_MappingTypes(t *testing.T) {
	opensearch1 := target.Version{Distribution: "opensearch", Number: "1.3.14", Major: 1, Minor: 3}
	for name, mapping := range map[string]string{"with the type": `{"doc":{"properties":{"n":{"type":"text"}}}}`, "without": `{"properties":{"n":{"type":"text"}}}`} {
		t.Run(name, func(t *testing.T) {
			on := mapped{mappings: map[string]string{"old": mapping}}
			plan := &plan.Plan{Indices: []plan.Index{{Name: "old", Source: &snapshot.Index{Name: "old", Mappings: []snapshot.Mapping{{Type: "doc", Body: json.RawMessage(`{"properties":{"n":{"type":"long"}}}`)}}},
				Entry: plan.Entry{Naming: plan.Naming{Index: "old", Types: []string{"doc"}, Emit: true}}}}}
			x := Fields{Target: &on, TypesOnly: true, Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: &on}, Version: opensearch1, Log: slog.New(slog.DiscardHandler)}}
			all, warnings, err := x.Fields(t.Context(), plan)
			if got := fmt.Sprint(all["old"]); err != nil || len(warnings) > 0 || got != "[{n long text}]" {
				t.Errorf("%s; warnings %v, %v", got, warnings, err)
			}
		})
	}
}

// silent is a repository that does not answer.
type silent struct{ snapshot.Repository }

func (silent) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, fault.ErrUnavailable
}

// TestFieldComparison_ReadsDocumentsForMissingFields checks that the snapshot is read only if the target lacks a field, and that
// fields are not taken for unused when it cannot be read.
func TestFieldComparison_ReadsDocumentsForMissingFields(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	planned.Indices = slices.DeleteFunc(planned.Indices, func(x plan.Index) bool { return x.Name != "catalogue" })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	whole := string(planned.Indices[0].Source.Mappings[0].Body)
	for _, c := range []struct {
		name    string
		ctx     context.Context //nolint:containedctx // of a test
		mapping string
		types   bool
		fails   bool
	}{
		{"no field is missing", t.Context(), whole, false, false},
		{"only types are compared", t.Context(), `{}`, true, false},
		{"a field is missing", t.Context(), `{}`, false, true},
		{"the run has ended", ended, `{`, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := mapped{mappings: map[string]string{"catalogue": c.mapping}}
			x := Fields{Source: Comparison{Repo: silent{blobs}}, Target: &on, TypesOnly: c.types,
				Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: &on}, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}}
			if all, warnings, err := x.Fields(c.ctx, planned); (err != nil) != c.fails || len(all["catalogue"]) != 0 {
				t.Errorf("%v, warnings %v, %v", all, warnings, err)
			}
		})
	}
}

func TestHasValue(t *testing.T) {
	for _, c := range []struct {
		source, path string
		want         bool
	}{
		{`{"a":1}`, "a", true}, {`{"a":null}`, "a", false}, {`{"a":[]}`, "a", false}, {`{"a":[null,0]}`, "a", true}, {`{"a":false}`, "a", true},
		{`{"a":{"b":"x"}}`, "a.b", true}, {`{"a.b":"x"}`, "a.b", true}, {`{"a":[{"c":1},{"b":1}]}`, "a.b", true}, {`{"a":{"c":1}}`, "a.b", false},
		{`{"a":{"b":{"c":1}}}`, "a.b", true}, {`{"a":{"b":{}}}`, "a.b", false}, {`{"a.b":{"c":1}}`, "a.b.c", true}, {`1`, "a", false},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.source), &v); err != nil {
			t.Fatal(err)
		}
		if got := hasValue(v, strings.Split(c.path, ".")); got != c.want {
			t.Errorf("%s in %s: %v", c.path, c.source, got)
		}
	}
}
