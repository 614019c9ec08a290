package rebuild_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// rebuiltVersions are the snapshots of TestFixtures that hold every type, and the kinds of indices in them.
var rebuiltVersions = []struct {
	heading, dir string
	names, kinds []string
}{
	{"8.19", "testdata", []string{"8.19.21-rebuild", "8.19.21-types"}, syntheticKinds},
	{"9.5", "testdata", []string{"9.5.3-rebuild", "9.5.3-types"}, syntheticKinds},
	{"9.5", "testdata", []string{"9.5.3-columnar"}, []string{"columnar"}},
	{"OpenSearch 3.8", fixtures, []string{"os3.8.0-derived"}, []string{"derived"}},
}

var syntheticKinds = []string{"synthetic", "logsdb", "time series", "nested"}

// kindOf returns the kind of an index of these snapshots.
func kindOf(x plan.Index) string {
	switch {
	case strings.HasSuffix(x.Source.Settings["index.mode"], "columnar"):
		return "columnar"
	case strings.HasPrefix(x.Name, "nested"):
		return "nested"
	case x.Entry.Rebuild == plan.RebuildDerived:
		return "derived"
	}
	switch mode := x.Source.Settings["index.mode"]; mode {
	case "time_series":
		return "time series"
	case "logsdb":
		return mode
	}
	return "synthetic"
}

// fieldTypes adds the states that the fields of each type have in the indices of a snapshot whose sources are rebuilt, by the kind of the
// index.
func fieldTypes(t *testing.T, dir, name string, types map[string]map[string][]rebuild.State) {
	t.Helper()
	r, err := repo.NewDir(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range p.Indices {
		kind := kindOf(x)
		for _, f := range plan.SourcesOf(x.Source, "").Fields {
			if types[f.Type] == nil {
				types[f.Type] = map[string][]rebuild.State{}
			}
			if f.Unconfirmed {
				f.State = "by source code"
			}
			if !slices.Contains(types[f.Type][kind], f.State) {
				types[f.Type][kind] = append(types[f.Type][kind], f.State)
			}
		}
	}
}

// typesTable is the table of field types in docs/VERSIONS.md.
func typesTable(t *testing.T) string {
	t.Helper()
	all := map[string]bool{}
	var snapshots []map[string]map[string][]rebuild.State
	head, rule := "| type |", "|---|"
	for _, v := range rebuiltVersions {
		types := map[string]map[string][]rebuild.State{}
		for _, name := range v.names {
			fieldTypes(t, v.dir, name, types)
		}
		for name := range types {
			all[name] = true
		}
		snapshots = append(snapshots, types)
		for _, kind := range v.kinds {
			head, rule = head+" "+v.heading+", "+kind+" |", rule+"---|"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "| `%s` |", name)
		for i, v := range rebuiltVersions {
			for _, kind := range v.kinds {
				text := "–"
				switch states := snapshots[i][name][kind]; {
				case len(states) > 1:
					text = "by its parameters"
				case len(states) == 1:
					text = string(states[0])
				}
				fmt.Fprintf(&b, " %s |", text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestDocumentedTypes holds the table of field types in docs/VERSIONS.md against the fixtures, whose documents TestFixtures
// compares with the answers of their clusters; RFSD_WRITE_DOCS=1 writes it anew.
func TestDocumentedTypes(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "VERSIONS.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), "| type |")
	_, after, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no table of types", page)
	}
	want := before + typesTable(t) + "\n" + after
	if os.Getenv("RFSD_WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(raw) != want {
		t.Errorf("%s is not current: RFSD_WRITE_DOCS=1 go test ./rfs/source/rebuild -run DocumentedTypes", page)
	}
}

// TestStates: each field of a mapping has a state, those of objects too.
func TestStates(t *testing.T) {
	got, err := rebuild.States(json.RawMessage(`{"properties":{"a":{"type":"keyword","fields":{"b":{"type":"text"}}},"m":{"type":"match_only_text"},"o":{"properties":{"h":{"type":"holographic"}}},"n":{"type":"nested","properties":{"l":{"type":"long"}}}}}`))
	want := []rebuild.FieldState{{Field: "a", Type: "keyword", State: rebuild.Exact}, {Field: "m", Type: "match_only_text", State: rebuild.Exact, Unconfirmed: true},
		{Field: "n.l", Type: "long", State: rebuild.Exact}, {Field: "o.h", Type: "holographic", State: rebuild.Lost}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStatesOfMappedKeys: keys of a flattened object are fields of their own; of some nothing is kept.
func TestStatesOfMappedKeys(t *testing.T) {
	got, err := rebuild.States(json.RawMessage(`{"properties":{"f":{"type":"flattened","properties":{"a.b":{"type":"long"},"c":{"type":"keyword","doc_values":false},
		"d":{"type":"keyword","normalizer":"own"},"e":{"type":"keyword","normalizer":"lowercase"},"t":{"type":"text"}}}}}`))
	want := []rebuild.FieldState{{Field: "f", Type: "flattened", State: rebuild.Exact}, {Field: "f.a.b", Type: "long", State: rebuild.Exact},
		{Field: "f.c", Type: "keyword", State: rebuild.Lost, Note: "documents arrive without it, as the cluster answers them"},
		{Field: "f.d", Type: "keyword", State: rebuild.Normal}, {Field: "f.e", Type: "keyword", State: rebuild.Exact}, {Field: "f.t", Type: "text", State: rebuild.Exact}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStatesOfColumnarIndices: fields have the states that they have in other synthetic sources, whatever their doc values are
// asked to be; a source that was made when documents were indexed has all of them.
func TestStatesOfColumnarIndices(t *testing.T) {
	mapping := json.RawMessage(`{"prefix_properties":{"n":{"dynamic":"false"}},"properties":{"a":{"type":"keyword","doc_values":{"cardinality":"high"}},"f":{"type":"flattened"},
		"n":{"type":"nested","properties":{"k.l":{"type":"long"}}},"h":{"type":"holographic"},"t":{"type":"text"},"w":{"type":"date","format":"week_date"},"x":{"type":"wildcard"}}}`)
	for _, c := range []struct {
		name, exact string
		states      func() ([]rebuild.FieldState, error)
	}{
		{"columnar", "a f n.k.l t ", func() ([]rebuild.FieldState, error) { return rebuild.StatesColumnar(mapping, 9_111_000) }},
		{"stored", "a f h n.k.l t w x ", func() ([]rebuild.FieldState, error) { return rebuild.StatesStored(mapping) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.states()
			if err != nil {
				t.Fatal(err)
			}
			exact := ""
			for _, f := range got {
				if f.State == rebuild.Exact {
					exact += f.Field + " "
				}
			}
			if len(got) != 7 || exact != c.exact {
				t.Errorf("exact: %q of %+v, want %q", exact, got, c.exact)
			}
		})
	}
}
