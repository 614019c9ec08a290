package importer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// wantedOf returns the documents that failed in a world.
func wantedOf(w *world) (wanted []redrive.Document) {
	for _, f := range w.failed.All() {
		wanted = append(wanted, redrive.Document{Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal})
	}
	return wanted
}

func (w *world) again(t *testing.T) (*importer.Again, error) {
	t.Helper()
	return importer.NewAgain(t.Context(), w.comparison(), w.session)
}

// TestFailedDocumentsAreReadFromTheFilesAgain: those of plain and of compressed files, in which most documents arrived, with ids
// that the import made, and with types that it left out.
func TestFailedDocumentsAreReadFromTheFilesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var text strings.Builder
		for n := range 3000 {
			if n%3 == 0 {
				fmt.Fprintf(&text, "{\"index\":{\"_index\":\"a\"}}\n{\"n\":%d,\"pad\":\"%s\"}\n", n, strings.Repeat("x", n))
			} else {
				fmt.Fprintf(&text, "{\"index\":{\"_index\":\"a\",\"_id\":\"%d\",\"routing\":\"r%d\",\"_type\":\"t\"}}\n{\"n\":%d}\n", n, n, n)
			}
		}
		for _, name := range []string{"plain.ndjson", "packed.ndjson.gz", "packed.ndjson.zst"} {
			w.write(name, strings.ReplaceAll(text.String(), `"_index":"a"`, `"_index":"`+name[:4]+name[len(name)-2:]+`"`))
		}
		sent := 0
		w.target.refuse = func(string) int {
			if sent++; sent%100 == 7 {
				return 400
			}
			return 0
		}
		s := run(t, w.node(func(m *importer.Import) { m.Types, m.Window = importer.DropTypes, 100_000 }))
		wanted := wantedOf(w)
		if s.Failed < 50 || len(wanted) != int(s.Failed) {
			t.Fatalf("%+v, %d recorded", s.Counts, len(wanted))
		}
		sources := map[int]string{}
		for n, f := range w.failed.All() {
			sources[n] = fmt.Sprintf("%s %q %q %s", f.Index, f.Type, f.Routing, f.Source)
		}
		// What the files do not hold is not passed on.
		other := wanted[0]
		other.Ordinal++
		elsewhere := wanted[1]
		elsewhere.ID = "another"
		wanted = append(wanted, other, elsewhere, redrive.Document{Index: "a", Shard: 99}, redrive.Document{Index: "a", Shard: -1, Ordinal: -1}, redrive.Document{Ordinal: 1 << 60})
		a, err := w.again(t)
		if err != nil {
			t.Fatal(err)
		}
		err = a.Read(t.Context(), wanted, func(n int, d *doc.Document) error {
			if is := fmt.Sprintf("%s %q %q %s", d.Index, d.Type, d.Routing, d.Source); sources[n] != is {
				t.Errorf("document %d: %.200s, it failed as %.200s", n, is, sources[n])
			}
			delete(sources, n)
			return nil
		})
		if err != nil || len(sources) > 0 {
			t.Errorf("%d were not read: %v", len(sources), err)
		}
		enough := errors.New("enough")
		if err := a.Read(t.Context(), wanted, func(int, *doc.Document) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Read(ctx, wanted, func(int, *doc.Document) error { return nil }); err == nil {
			t.Error("it read on")
		}
	})
}

func TestOtherFilesAreNotReadInPlaceOfThoseOfAnImport(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world)
		fails  bool
	}{
		{"the same", func(*world) {}, false},
		{"one is missing", func(w *world) { w.remove("b/0-0.ndjson") }, true},
		{"one more", func(w *world) { w.write("c.ndjson", "{}\n") }, true},
		{"an export of the same shape with other content", func(w *world) {
			b, err := os.ReadFile(filepath.Join(w.dir, "rfsd-export.json"))
			if err != nil {
				w.t.Fatal(err)
			}
			w.raw("rfsd-export.json", regexp.MustCompile(`"sha256": ?"[0-9a-f]{8}`).ReplaceAllString(string(b), `"sha256":"00000000`))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.export("", true, "a", "b")
				run(t, w.node())
				c.change(w)
				_, err := w.again(t)
				if (err != nil) != c.fails || c.fails && !errors.Is(err, fault.ErrConfig) {
					t.Errorf("%v", err)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, w *world) {
		w.small()
		if _, err := w.again(t); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "imports no files") {
			t.Errorf("without an import: %v", err)
		}
	})
}
