package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// says is a target with recorded answers by path, whatever the method is; 404 to all else.
type says map[string]string

func (a says) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if body, ok := a[path]; ok {
		return 200, []byte(body), nil
	}
	return 404, []byte(`{"error":"no such thing"}`), nil
}

var opensearch2 = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// life counts calls and fails one of them.
type life struct {
	mu    sync.Mutex
	calls int
	dies  int // at this call; 0: never
	fails error
}

func (l *life) call(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.calls == l.dies {
		return l.fails
	}
	f()
	return nil
}

// asker is a target with recorded answers. It refuses what is recorded as forbidden.
type asker struct{ says }

const forbidden = "forbidden"

func (a asker) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	if a.says[path] == forbidden {
		return 403, []byte(`{"error":{"type":"security_exception"}}`), nil
	}
	return a.says.Do(ctx, method, path, query, body)
}

func (a asker) IndexExists(_ context.Context, name string) (bool, error) {
	_, there := a.says["/"+name]
	return there, nil
}
func (asker) UnfitAliases(context.Context, []string) (map[string]string, error) { return nil, nil }
func (asker) PipelineEffects(context.Context, string) ([]string, error) {
	return []string{"drop drops documents"}, nil
}
func (asker) FinalPipelines(context.Context, []string) (map[string]string, error) { return nil, nil }

// TestEvaluateComparesWithWhatExists plans the index a with a field of type keyword, 2 shards and the alias all.
func TestEvaluateComparesWithWhatExists(t *testing.T) {
	index := func(mappings, settings string) string {
		return `{"a":{"aliases":{"all":{}},"mappings":` + mappings + `,"settings":{"index":{"number_of_shards":"2","number_of_replicas":"0","uuid":"u"` + settings + `}}}}`
	}
	const same = `{"properties":{"f":{"type":"keyword"},"o":{"properties":{"n":{"type":"long"}}}}}`
	for name, c := range map[string]struct {
		says     says
		own      map[string]string
		existing bulk.Existing
		differs  []string // path and a part of the detail
		stops    []string
		docs     int64
		unseen   []string
	}{
		"it does not exist":                 {says: says{}},
		"it is the same":                    {says: says{"/a": index(same, "")}},
		"a field has another type":          {says: says{"/a": index(`{"properties":{"f":{"type":"text"},"o":{"properties":{"n":{"type":"long"}}}}}`, "")}, differs: []string{`properties.f.type "text"`}},
		"a field deep inside differs":       {says: says{"/a": index(`{"properties":{"f":{"type":"keyword"},"o":{"properties":{"n":{"type":"date"}}}}}`, "")}, differs: []string{`properties.o.properties.n.type "date"`}},
		"a field is missing":                {says: says{"/a": index(`{"properties":{"o":{"properties":{"n":{"type":"long"}}}}}`, "")}, differs: []string{"properties.f left out"}},
		"the mapping is strict":             {says: says{"/a": index(strings.Replace(same, "{", `{"dynamic":"strict",`, 1), "")}, differs: []string{`dynamic "strict"`}},
		"it has other shards":               {says: says{"/a": strings.Replace(index(same, ""), `"number_of_shards":"2"`, `"number_of_shards":"7"`, 1)}, differs: []string{`index.number_of_shards "7"`}},
		"it has an analyzer":                {says: says{"/a": index(same, `,"analysis":{"analyzer":{"x":{"type":"simple"}}}`)}, differs: []string{"index.analysis.analyzer.x.type added"}},
		"it has a default pipeline":         {says: says{"/a": index(same, `,"default_pipeline":"p"`)}, differs: []string{`index.default_pipeline "p"`}},
		"it refuses writes":                 {says: says{"/a": index(same, ""), "/a/_settings": `{"a":{"settings":{"index.blocks.write":"true"}}}`}, stops: []string{"index a has the block index.blocks.write"}},
		"it holds documents":                {says: says{"/a": index(same, ""), "/a/_count": `{"count":12}`}, docs: 12, stops: []string{"a (12)"}},
		"it holds documents of the session": {says: says{"/a": index(same, ""), "/a/_count": `{"count":12}`, "/a/_settings": `{"a":{"settings":{"index.uuid":"u"}}}`}, own: map[string]string{"a": "u"}, docs: 12},
		"it was created again since":        {says: says{"/a": index(same, ""), "/a/_count": `{"count":12}`, "/a/_settings": `{"a":{"settings":{"index.uuid":"v"}}}`}, own: map[string]string{"a": "u"}, docs: 12, stops: []string{"a (12)"}},
		"it holds documents, chosen":        {says: says{"/a": index(same, ""), "/a/_count": `{"count":12}`}, existing: bulk.Keep, docs: 12},
		"another index has its alias":       {says: says{"/_alias/all": `{"old":{}}`}, differs: []string{"aliases.all leads to old already"}},
		"its own alias":                     {says: says{"/a": index(same, ""), "/_alias/all": `{"a":{}}`}},
		"its name is an alias":              {says: says{"/a": strings.Replace(index(same, ""), `{"a":`, `{"other":`, 1)}, differs: []string{"a is an alias of other"}},
		"its answer cannot be read":         {says: says{"/a": "not json"}, unseen: []string{"mappings and settings of index a"}},
		"it may not be looked at": {says: says{"/a": forbidden, "/_alias/all": forbidden},
			unseen: []string{"mappings and settings of index a be seen, so they are not compared: GET /a: status 403", "indices of alias all"}},
		"a part of it may not be seen": {says: says{"/a": index(same, ""), "/a/_settings": forbidden, "/a/_count": forbidden}, unseen: []string{"blocks of index a", "documents of index a"}},
		"it refuses writes, with lists among its settings": {says: says{"/a": index(same, ""), "/a/_settings": `{"a":{"settings":{"index.query.default_field":["f"],"index.blocks.write":"true"}}}`},
			stops: []string{"index a has the block index.blocks.write"}},
	} {
		t.Run(name, func(t *testing.T) {
			on := asker{says: c.says}
			x := &snapshot.Index{Name: "a", NumShards: 2, Settings: map[string]string{"index.number_of_shards": "2", "index.number_of_replicas": "0"},
				Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(same)}}, Aliases: json.RawMessage(`{"all":{}}`)}
			plan := &plan.Plan{Indices: []plan.Index{{Name: "a", Source: x, Entry: plan.Entry{Naming: plan.Naming{Index: "a"}, Shards: 2}}}}
			e := &Evaluator{Target: on, Version: opensearch2, Existing: c.existing, Own: c.own, Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: on, Blind: true}, Version: opensearch2, Log: quiet()}}
			r := &Report{}
			if err := e.preview(t.Context(), plan, r); err != nil {
				t.Fatal(err)
			}
			object := &r.Indices[0].Targets[0]
			object.Changes = nil
			if err := e.compareTargets(t.Context(), plan, r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range object.Changes {
				got = append(got, d.Path+" "+d.Detail)
			}
			expect(t, "differences", got, c.differs)
			expect(t, "stops", r.Stops, c.stops)
			expect(t, "warnings", r.Warnings, c.unseen)
			if object.Documents != c.docs {
				t.Errorf("%d documents, want %d", object.Documents, c.docs)
			}
		})
	}
	t.Run("many aliases are looked for together", func(t *testing.T) {
		var aliases []string
		for n := range aliasesApart {
			aliases = append(aliases, fmt.Sprintf(`"b%d":{}`, n))
		}
		done := metadata.Converted{Body: []byte(`{"aliases":{` + strings.Join(aliases, ",") + `}}`), Late: json.RawMessage(`{"late":{}}`)}
		e, object := &Evaluator{Target: asker{says: says{"/_alias": `{"a":{"aliases":{"b1":{}}},"old":{"aliases":{"late":{},"b7":{},"other":{}}}}`}}}, &Object{}
		if err := e.compareAliases(t.Context(), "a", done, map[string]bool{"a": true}, object, &Report{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range object.Changes {
			got = append(got, d.Path+" "+d.Detail)
		}
		expect(t, "differences", got, []string{"aliases.b7 leads to old already", "aliases.late leads to old already"})
	})
	if _, err := (&Evaluator{Target: unavailable{}}).ask(t.Context(), "a", "/a", nil, nil, &Report{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestEvaluator_RefusedAliasesAndShards: a second write index of an alias, and more shards than the target takes, stop the migration.
func TestEvaluator_RefusedAliasesAndShards(t *testing.T) {
	const health = `{"number_of_data_nodes":2,"active_shards":10,"initializing_shards":1,"unassigned_shards":3}`
	limit := func(n int) string { return fmt.Sprintf(`{"persistent":{"cluster":{"max_shards_per_node":"%d"}}}`, n) }
	for _, c := range []struct {
		name    string
		says    says
		aliases string
		stops   []string
		differs []string
	}{
		{"another index is the write index", says{"/_alias/w": `{"old":{"aliases":{"w":{"is_write_index":true}}}}`}, `{"w":{"is_write_index":true}}`,
			[]string{"the target would refuse the alias w of index a: old is its write index"}, []string{"aliases.w refused: old", "aliases.w leads to old"}},
		{"another index has the alias for reading", says{"/_alias/w": `{"old":{"aliases":{"w":{}}}}`}, `{"w":{"is_write_index":true}}`, nil, []string{"aliases.w leads to old"}},
		{"it is for reading here", says{"/_alias/w": `{"old":{"aliases":{"w":{"is_write_index":true}}}}`}, `{"w":{"is_write_index":false}}`, nil, []string{"aliases.w leads to old"}},
		{"the index is there already", says{"/a": `{"a":{"aliases":{},"mappings":{},"settings":{"index":{"number_of_shards":"3","number_of_replicas":"1"}}}}`, "/_alias/w": `{"old":{"aliases":{"w":{"is_write_index":true}}}}`},
			`{"w":{"is_write_index":true}}`, nil, []string{"aliases.w leads to old"}},
		{"room for its shards", says{"/_cluster/health": health, "/_cluster/settings": limit(10)}, `{}`, nil, nil},
		{"one shard too many", says{"/_cluster/health": health, "/_cluster/settings": limit(9)}, `{}`, []string{"14 there, 6 to come with replicas, 18 allowed (cluster.max_shards_per_node 9, data nodes 2)"}, nil},
		{"too many, but it is there", says{"/a": `{"a":{"aliases":{},"mappings":{},"settings":{"index":{"number_of_shards":"3","number_of_replicas":"1"}}}}`, "/_cluster/health": health, "/_cluster/settings": limit(1)}, `{}`, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := asker{c.says}
			x := &snapshot.Index{Name: "a", NumShards: 3, Settings: map[string]string{"index.number_of_shards": "3", "index.number_of_replicas": "1"}, Aliases: json.RawMessage(c.aliases)}
			plan := &plan.Plan{Indices: []plan.Index{{Name: "a", Source: x, Entry: plan.Entry{Naming: plan.Naming{Index: "a"}, Shards: 3}}}}
			e := &Evaluator{Target: on, Version: opensearch2, Only: Sections{Changes, Limits}, Needs: Needs{Now: time.Now}, Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: on, Blind: true}, Version: opensearch2, Log: quiet()}}
			r := &Report{}
			if err := errors.Join(e.preview(t.Context(), plan, r), e.compareTargets(t.Context(), plan, r)); err != nil {
				t.Fatal(err)
			}
			for _, f := range Check(t.Context(), on, e.Version, e.needs(plan, r), Sections{Limits}) {
				if f.Check == "shards per node" && f.Level == Bad {
					r.refuse("%s", f.Detail)
				}
			}
			expect(t, "stops", r.Stops, c.stops)
			var aliases []string
			for _, d := range r.Indices[0].Targets[0].Changes {
				if d.Rule == aliasWrite || d.Rule == aliasShared {
					aliases = append(aliases, d.Path+" "+d.Detail)
				}
			}
			expect(t, "differences", aliases, c.differs)
		})
	}
}

// TestEvaluateOfADataStream: its documents are created, whatever the stream holds already.
func TestEvaluateOfADataStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		on     says
		action string
	}{
		{"there", says{"/events": `{".ds-events-000007":{}}`, "/events/_count": `{"count":12}`}, WouldKeep},
		{"missing", says{}, WouldCreate},
	} {
		plan := &plan.Plan{Indices: []plan.Index{{Name: ".ds-events-000001", Source: &snapshot.Index{Name: ".ds-events-000001"}, Entry: plan.Entry{
			Naming: plan.Naming{Index: "events"}, Create: true, Stream: &metadata.StreamPart{Stream: "events"},
		}}}}
		e := &Evaluator{Target: asker{c.on}, Version: opensearch2, Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: asker{c.on}, Blind: true}, Version: opensearch2, Log: quiet()}}
		r := &Report{}
		err := e.preview(t.Context(), plan, r)
		if err == nil {
			err = e.compareTargets(t.Context(), plan, r)
		}
		if err != nil {
			t.Fatal(err)
		}
		targets := r.Indices[0].Targets
		if len(targets) != 1 || targets[0].Name != "events" || targets[0].Action != c.action || len(r.Stops) > 0 {
			t.Errorf("%s: %+v, stops %q", c.name, targets, r.Stops)
		}
	}
}

type unavailable struct{ asker }

func (unavailable) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return 0, nil, fault.ErrUnavailable
}

// expect compares texts with words that they have to contain, one for one.
func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
		return
	}
	for i := range want {
		for word := range strings.FieldsSeq(want[i]) {
			if !strings.Contains(got[i], word) {
				t.Errorf("%s: %q lacks %q", what, got[i], word)
			}
		}
	}
}
