package worker

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestEveryWayOfNamingKeepsDocumentsOfTwoTypesApart(t *testing.T) {
	types := []string{"blog", "comment"}
	for _, c := range []struct {
		multi     MultiType
		emit      EmitType
		targets   []string
		index, id string
		typ       string
	}{
		{SplitTypes, EmitAuto, []string{"pc_blog", "pc_comment"}, "pc_blog", "1", ""},
		{UnionTypes, EmitAuto, []string{"pc"}, "pc", "blog#1", ""},
		{SplitTypes, EmitOn, []string{"pc"}, "pc", "1", "blog"},
	} {
		n := newNaming("pc", types, c.multi, c.emit, nil)
		if !slices.Equal(n.Targets(), c.targets) {
			t.Errorf("%s/%s: targets %q", c.multi, c.emit, n.Targets())
		}
		d := doc.Document{Type: []byte("blog"), ID: []byte("1")}
		if err := newNamer(n).name(&d); err != nil {
			t.Fatal(err)
		}
		if string(d.Index) != c.index || string(d.ID) != c.id || string(d.Type) != c.typ {
			t.Errorf("%s/%s: %s %s %s", c.multi, c.emit, d.Index, d.ID, d.Type)
		}
	}
}

func TestOneTypeKeepsTheNameOfTheIndex(t *testing.T) {
	n := newNaming("logs", []string{"doc"}, SplitTypes, EmitAuto, nil)
	if !slices.Equal(n.Targets(), []string{"logs"}) || n.TypeOf("logs") != "" {
		t.Errorf("%+v", n)
	}
}

func TestTypeThatWasNotPlannedIsDamage(t *testing.T) {
	d := doc.Document{Type: []byte("other"), ID: []byte("1")}
	if err := newNamer(newNaming("pc", []string{"a", "b"}, SplitTypes, EmitAuto, nil)).name(&d); err == nil {
		t.Error("accepted")
	}
}
