package importer_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// comparison reads the files of a world.
func (w *world) comparison() importer.Comparison {
	w.t.Helper()
	src, err := repo.NewDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return importer.Comparison{Source: src, MaxDocument: 1 << 20, Types: importer.DropTypes, Log: slog.New(slog.DiscardHandler)}
}

// compared reads all units of groups: documents as a landing has them, and the fates of the others.
func (w *world) compared(groups []verify.Group) (docs map[string]string, fates map[verify.Fate]int) {
	w.t.Helper()
	docs, fates = map[string]string{}, map[verify.Fate]int{}
	for _, g := range groups {
		for _, u := range g.Units {
			err := u.Read(w.t.Context(), 0, func(d *verify.Document) error {
				if fates[d.Fate]++; d.Fate != verify.Sent {
					return nil
				}
				if !slices.Contains(g.Targets, string(d.Index)) {
					w.t.Errorf("%s: a document goes to %s, and the group has %v", u.Name, d.Index, g.Targets)
				}
				key := string(d.Index) + "/" + string(d.ID)
				if len(d.Routing) > 0 {
					key += "?" + string(d.Routing)
				}
				docs[key] = string(d.Source)
				return nil
			})
			if err != nil {
				w.t.Errorf("%s: %v", u.Name, err)
			}
		}
	}
	return docs, fates
}

func TestAComparisonReadsWhatAnImportSends(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.corpus()
		w.write("mixed.ndjson.gz", strings.Join([]string{
			`{"index":{"_index":"c","_id":"1","routing":"r"}}`, `{"a":1.0}`,
			`{"create":{"_index":"d"}}`, `{"no":"id"}`,
			`{"index":{"_index":"c","_id":"t","_type":"doc"}}`, " {\"a\":\r\n",
			`{"index":{"_index":".rfs_state","_id":"1"}}`, `{}`,
			`{"index":{"_index":".system","_id":"1"}}`, `{}`,
			`not a line`, `{"index":{"_index":"c","_id":"9","version":3}}`, `{}`,
		}, "\n"))
		w.write("more.ndjson", `{"index":{"_index":"d","_id":"x"}}`+"\n{}\n")
		status := run(t, w.node(func(m *importer.Import) { m.Types = importer.DropTypes }))
		groups, err := w.comparison().Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var targets []string
		for _, g := range groups {
			targets = append(targets, strings.Join(g.Targets, " "))
		}
		if slices.Sort(targets); !slices.Equal(targets, []string{"a", "b", "c d"}) {
			t.Errorf("groups %q", targets)
		}
		docs, fates := w.compared(groups)
		if !maps.Equal(docs, w.target.docs) {
			t.Errorf("%d documents, the import sent %d", len(docs), len(w.target.docs))
		}
		if int64(fates[verify.Unsent]) != status.Failed || int64(fates[verify.Filtered]) != status.Filtered || status.Failed == 0 || status.Filtered == 0 {
			t.Errorf("%v, the import has %+v", fates, status.Totals)
		}
	})
}

func TestAComparisonOfAnExport(t *testing.T) {
	for _, c := range []struct {
		name    string
		finish  bool
		change  func(w *world)
		partial bool // and it is refused
		keys    int  // units that are known for ever
	}{
		{"whole", true, func(*world) {}, false, 2},
		{"not finished", false, func(*world) {}, true, 0},
		{"a file is missing", true, func(w *world) { w.remove("b/0-0.ndjson") }, true, 0},
		{"without a manifest", true, func(w *world) {
			w.remove("rfsd-export.json")
			w.remove(".rfsd/items/0-0 b")
			w.remove(".rfsd/items/0-0 a")
		}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.export("", c.finish, "a", "b")
				c.change(w)
				groups, err := w.comparison().Groups(t.Context())
				if c.partial {
					if !errors.Is(err, importer.ErrPartial) {
						t.Errorf("%v", err)
					}
					partial := w.comparison()
					partial.AllowPartial = true
					if groups, err = partial.Groups(t.Context()); err != nil || len(groups) == 0 {
						t.Errorf("--allow-partial: %d groups, %v", len(groups), err)
					}
					return
				}
				if err != nil || len(groups) != 2 {
					t.Fatalf("%d groups, %v", len(groups), err)
				}
				keys := map[string]bool{}
				for _, g := range groups {
					if key := g.Units[0].Key; key != "" {
						keys[key] = true
					}
				}
				docs, _ := w.compared(groups)
				if len(keys) != c.keys || fmt.Sprint(docs) != `map[a/1:{"n":1} a/2:{"n":2} b/1:{"n":1} b/2:{"n":2}]` {
					t.Errorf("%d keys, %v", len(keys), docs)
				}
			})
		})
	}
}
