package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
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
		for _, multi := range []MultiType{SplitTypes, UnionTypes} {
			t.Run(version+"/"+string(multi), func(t *testing.T) {
				got := sentOf(t, filepath.Join("testdata", version+"-family"), "family", Request{MultiType: multi, ParentJoin: "relation"})
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

func TestIDsUnderSeveralParentsAreNamed(t *testing.T) {
	c := newCollisions(&metadata.Join{Parents: map[string]string{"c": "p"}})
	for _, uid := range []string{"p#1", "c#1", "c#2", "c#1", "n#1", "n#1", "c#1"} {
		typ, _, _ := strings.Cut(uid, "#")
		c.add([]byte(typ), &lucene.Record{IDKind: lucene.IDUID, ID: []byte(uid)})
	}
	all := c.warnings("x")
	if len(all) != 1 || !strings.Contains(all[0], "several parents: c#1. ") {
		t.Errorf("%q", all)
	}
	if got := newCollisions(nil).warnings("x"); got != nil {
		t.Errorf("without a join field: %q", got)
	}
}

func TestAnIndexWithoutParentsKeepsItsTypesBesideAParentJoin(t *testing.T) {
	x := &snapshot.Index{Name: "a", Mappings: []snapshot.Mapping{{Type: "note", Body: json.RawMessage(`{"properties":{"n":{"type":"long"}}}`)}}}
	if join, err := joinOf(x, Request{ParentJoin: "relation", EmitType: EmitOn}); join != nil || err != nil {
		t.Errorf("%+v, %v", join, err)
	}
}

func TestParentJoinIsRefusedBeforeTheRun(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("testdata", "5.6.16-family"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		req  Request
		says string
	}{
		{"a field of that name", Request{ParentJoin: "n"}, "has a field n already"},
		{"types that stay", Request{ParentJoin: "relation", EmitType: EmitOn}, "--emit-doc-type ON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.SnapshotName, c.req.MultiType = "snap1", SplitTypes
			if _, err := NewPlan(t.Context(), blobs, c.req); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
