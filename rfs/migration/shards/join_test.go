package shards

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// TestParentsAndChildrenGetAJoinField: Elasticsearch 2 stores _parent, 5 keeps it in doc values.
func TestParentsAndChildrenGetAJoinField(t *testing.T) {
	want := map[string]line{"note#0": {"", `{}`, false}, "note#1": {"", `{"n":300}`, false}}
	for i := range 6 {
		want[fmt.Sprintf("company#%d", i)] = line{fmt.Sprint(i), fmt.Sprintf(`{"relation":"company","n":%d}`, i), false}
	}
	for i := range 12 {
		want[fmt.Sprintf("person#%d", i)] = line{fmt.Sprint(i / 2), fmt.Sprintf(`{"relation":{"name":"person","parent":"company#%d"}, "n":%d }`, i/2, 100+i), false}
	}
	for i := range 4 {
		want[fmt.Sprintf("pet#%d", i)] = line{fmt.Sprint(3 * i / 2), fmt.Sprintf(`{"relation":{"name":"pet","parent":"person#%d"},"n":%d}`, 3*i, 200+i), false}
	}
	for _, version := range []string{"2.4.6", "5.6.16"} {
		for _, multi := range []plan.MultiType{plan.SplitTypes, plan.UnionTypes} {
			t.Run(version+"/"+string(multi), func(t *testing.T) {
				got := sentOf(t, filepath.Join("..", "worker", "testdata", version+"-family"), "family", plan.Request{MultiType: multi, ParentJoin: "relation"})
				if !maps.Equal(got, want) {
					t.Errorf("sent %+v, want %+v", got, want)
				}
			})
		}
	}
}

func TestRelate(t *testing.T) {
	join := &metadata.Join{Field: "r", Parents: map[string]string{"c": "p", "g": "c"}}
	for _, c := range []struct {
		name, typ, routing, parent, source string
		want, wantRouting                  string
	}{
		{"a parent", "p", "", "", `{"a":1}`, `{"r":"p","a":1}`, "1"},
		{"a parent with a routing of its own", "p", "x", "", `{"a":1}`, `{"r":"p","a":1}`, "x"},
		{"a child", "c", "7", "p#7", `{"a":1}`, `{"r":{"name":"c","parent":"p#7"},"a":1}`, "7"},
		{"a grandchild", "g", "7", "c#8", `{"a":1}`, `{"r":{"name":"g","parent":"c#8"},"a":1}`, "7"},
		{"an id with a #", "c", "a#b", "p#a#b", `{"a":1}`, `{"r":{"name":"c","parent":"p#a#b"},"a":1}`, "a#b"},
		{"an id with a quote", "c", `"`, `p#"`, `{"a":1}`, `{"r":{"name":"c","parent":"p#\""},"a":1}`, `"`},
		{"a child without a parent", "c", "7", "", `{"a":1}`, `{"a":1}`, "7"},
		{"a type without relations", "n", "", "", `{"a":1}`, `{"a":1}`, ""},
		{"an empty source", "p", "", "", " {\t} ", " {\"r\":\"p\"\t} ", "1"},
		{"a byte order mark", "p", "", "", "\xEF\xBB\xBF{\"a\":1}", "\xEF\xBB\xBF{\"r\":\"p\",\"a\":1}", "1"},
		{"a source of a comment", "p", "", "", `{/* } "a":1 */}`, `{"r":"p"/* } "a":1 */}`, "1"},
		{"a comment before a member", "p", "", "", `{/* } */"a":1}`, `{"r":"p",/* } */"a":1}`, "1"},
		{"a list", "p", "", "", `[{"a":1}]`, "", ""},
		{"nothing", "p", "", "", ``, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, rec := doc.Document{Type: []byte(c.typ), ID: []byte("1"), Source: []byte(c.source)}, &lucene.Record{}
			if c.routing != "" {
				d.Routing = []byte(c.routing)
			}
			if c.parent != "" {
				rec.Parent = []byte(c.parent)
			}
			err := newJoiner(join).relate(t.Context(), rec, &d)
			if c.want == "" {
				if !errors.Is(err, errNoObject) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || string(d.Source) != c.want || string(d.Routing) != c.wantRouting {
				t.Errorf("%s routed by %q, %v; want %s by %q", d.Source, d.Routing, err, c.want, c.wantRouting)
			}
		})
	}
}
