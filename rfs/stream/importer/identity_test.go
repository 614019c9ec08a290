package importer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// TestASessionIsOfOneImport: what a session has imported counts only for its destination, its files and its export.
func TestASessionIsOfOneImport(t *testing.T) {
	destination := func(kind, id string) func(*importer.Import) {
		return func(m *importer.Import) { m.Identity = map[string]string{"destination": kind, "destination-id": id} }
	}
	again := func(w *world) { // another export of the same shape under the same name
		if err := os.RemoveAll(w.dir); err != nil {
			w.t.Fatal(err)
		}
		w.export("", true, "a", "b")
	}
	for _, c := range []struct {
		name    string
		between func(w *world)
		second  func(m *importer.Import)
		says    []string // of the error; nothing: joined
	}{
		{name: "the same again"},
		{name: "the cluster is unknown", second: destination("cluster", "")},
		{name: "another cluster", second: destination("cluster", "B"), says: []string{`destination-id was "A", is "B"`, "--session-name"}},
		{name: "another kind", second: destination("export directory", "A"), says: []string{`destination was "cluster", is "export directory"`}},
		{name: "the export replaced under its name", between: again, says: []string{"export was ", ", is "}},
		{name: "types dropped", second: func(m *importer.Import) { m.Types = importer.DropTypes }, says: []string{`emit-doc-type was "AUTO", is "OFF"`}},
		{name: "system indices", second: func(m *importer.Import) { m.IncludeSystem = true }, says: []string{`include-system was "false", is "true"`}},
		{
			name: "a file more", between: func(w *world) { w.write("c/0-0.ndjson", "{\"index\":{\"_index\":\"c\"}}\n{}\n") },
			second: func(m *importer.Import) { m.AllowPartial = true }, says: []string{`files was "2 files, `, `is "3 files, `},
		},
		{
			name: "a rewritten manifest", between: func(w *world) {
				name := w.dir + "/" + export.ManifestName
				b, err := os.ReadFile(name)
				if err != nil {
					w.t.Fatal(err)
				}
				at := bytes.Index(b, []byte(`"sha256": "`)) + len(`"sha256": "`)
				b[at] = map[bool]byte{true: '1', false: '0'}[b[at] == '0']
				if err := os.WriteFile(name, b, 0o600); err != nil {
					w.t.Fatal(err)
				}
			}, says: []string{"export-files was "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.export("", true, "a", "b")
				if s := run(t, w.node()); !s.Complete || s.Indexed != 4 {
					t.Fatalf("%+v", s)
				}
				if c.between != nil {
					c.between(w)
				}
				var change []func(*importer.Import)
				if c.second != nil {
					change = append(change, c.second)
				}
				sent := len(w.target.docs)
				s, err := w.node(change...).Run(t.Context())
				if len(c.says) == 0 {
					if err != nil || !s.Complete {
						t.Errorf("%+v, %v", s, err)
					}
					return
				}
				var mismatch *session.ConfigMismatch
				if !errors.Is(err, fault.ErrConfig) || !errors.As(err, &mismatch) {
					t.Fatalf("%+v, %v", s, err)
				}
				for _, word := range c.says {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q is not in %v", word, err)
					}
				}
				if s.Complete || len(w.target.docs) != sent {
					t.Errorf("%+v, %d documents after %d", s, len(w.target.docs), sent)
				}
			})
		})
	}
}

// TestImport_ItemsOfAnotherVersion checks that they are refused and stay, and that nothing is sent.
func TestImport_ItemsOfAnotherVersion(t *testing.T) {
	for _, c := range []struct{ name, setup, task string }{
		{"a setup without a task", "", `{"v":2,"kind":"import","file":"a.ndjson","size":9,"to":9}`},
		{"a setup of this version", `{"v":3,"kind":"import","part":1000}`, `{"v":2,"kind":"import","file":"a.ndjson","size":9,"to":9}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.export("", true, "a", "b")
				of, err := w.store.OfKind(t.Context(), importer.Kind)
				if err != nil {
					t.Fatal(err)
				}
				items := cms.New(cms.Config{Store: of, Kind: importer.Kind, Clock: w.clock, Creator: "another", SetupTask: c.setup})
				id := cms.ItemID{Kind: importer.Kind, Index: "a.ndjson"}
				err = items.SeedOnce(t.Context(), "another", func(ctx context.Context) error {
					_, err := items.SeedRoots(ctx, slices.Values([]cms.Root{{ID: id, Task: c.task}}))
					return err
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = w.node().Run(t.Context())
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "another version of rfsd") || !strings.Contains(err.Error(), "--session-name") {
					t.Errorf("got %v", err)
				}
				if it, err := items.Item(t.Context(), id); err != nil || !it.Open() || it.AcquiredAt != 0 || len(w.target.docs) != 0 {
					t.Errorf("%+v, %v; %d documents were sent", it, err, len(w.target.docs))
				}
			})
		})
	}
}
