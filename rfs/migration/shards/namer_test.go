package shards

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

func TestEveryWayOfNamingKeepsDocumentsOfTwoTypesApart(t *testing.T) {
	types := []string{"blog", "comment"}
	for _, c := range []struct {
		naming    plan.Naming
		targets   []string
		index, id string
		typ       string
	}{
		{plan.Naming{Index: "pc", Types: types, Multi: plan.SplitTypes}, []string{"pc_blog", "pc_comment"}, "pc_blog", "1", ""},
		{plan.Naming{Index: "pc", Types: types, Multi: plan.UnionTypes}, []string{"pc"}, "pc", "blog#1", ""},
		{plan.Naming{Index: "pc", Types: types, Emit: true}, []string{"pc"}, "pc", "1", "blog"},
	} {
		n := c.naming
		if !slices.Equal(n.Targets(), c.targets) {
			t.Errorf("%+v: targets %q", n, n.Targets())
		}
		d := doc.Document{Type: []byte("blog"), ID: []byte("1")}
		if err := newNamer(n).name(&d); err != nil {
			t.Fatal(err)
		}
		if string(d.Index) != c.index || string(d.ID) != c.id || string(d.Type) != c.typ {
			t.Errorf("%+v: %s %s %s", n, d.Index, d.ID, d.Type)
		}
	}
}

func TestTypeThatWasNotPlannedIsDamage(t *testing.T) {
	d := doc.Document{Type: []byte("other"), ID: []byte("1")}
	if err := newNamer(plan.Naming{Index: "pc", Types: []string{"a", "b"}, Multi: plan.SplitTypes}).name(&d); err == nil {
		t.Error("accepted")
	}
}
