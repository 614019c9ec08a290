package snapshot

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestSourceOnly_HasTheOriginalMapping reads what a cluster wrote through a repository of type source.
func TestSourceOnly_HasTheOriginalMapping(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "8.19.21-source-only"))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s1", "s2"} {
		s, err := catalog.Snapshot(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range s.Indices {
			x, err := s.Index(t.Context(), ref.Name)
			if err != nil {
				t.Fatal(err)
			}
			again, err := x.Locator.Index(t.Context(), blobs) // as workers read it
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []*Index{x, again} {
				var m struct {
					Properties map[string]struct{ Type string }
				}
				if err := json.Unmarshal(x.Mappings[0].Body, &m); err != nil {
					t.Fatal(err)
				}
				for _, field := range []string{"n", "tag"} {
					if ref.Name == "so1" && m.Properties[field].Type == "" || len(x.Mappings) != 1 {
						t.Errorf("%s/%s: no field %s in %d mappings: %s", name, ref.Name, field, len(x.Mappings), x.Mappings[0].Body)
					}
				}
			}
		}
	}
}

func TestSourceOnly_IsTakenFromItsMetaOnly(t *testing.T) {
	const original = `{"properties":{"n":{"type":"integer"}}}`
	wrapped := func(typ, body string) string { return `{"enabled":false,"_meta":{"` + typ + `":` + body + `}}` }
	for _, c := range []struct {
		name, setting, mappings string
		want                    []string
	}{
		{"one type", `true`, `{"_doc":` + wrapped("_doc", original) + `}`, []string{original}},
		{"several types", `"true"`, `[{"a":` + wrapped("a", original) + `},{"b":` + wrapped("b", `{}`) + `}]`, []string{original, `{}`}},
		{"twice", `true`, `{"_doc":` + wrapped("_doc", wrapped("_doc", original)) + `}`, []string{original}},
		{"an ordinary index", `false`, `{"_doc":` + wrapped("_doc", original) + `}`, []string{wrapped("_doc", original)}},
		{"of another type", `true`, `{"_doc":` + wrapped("x", original) + `}`, []string{wrapped("x", original)}},
		{"no object", `true`, `{"_doc":` + wrapped("_doc", `[1]`) + `}`, []string{wrapped("_doc", `[1]`)}},
		{"the original itself", `true`, `{"_doc":` + original + `}`, []string{original}},
		{"no meta", `true`, `{"_doc":{"enabled":false}}`, []string{`{"enabled":false}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Index{Name: "i"}
			if err := x.parse("meta.dat", []byte(`{"i":{"settings":{"index.number_of_shards":1,"index.source_only":`+c.setting+`},"mappings":`+c.mappings+`}}`)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range x.Mappings {
				got = append(got, string(m.Body))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
