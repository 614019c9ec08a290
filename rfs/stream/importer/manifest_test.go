package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// export writes an export with one file per index and two documents each, finished or not.
func (w *world) export(folder string, finish bool, indices ...string) {
	w.t.Helper()
	d, err := export.Open(filepath.Join(w.dir, folder), "w", export.None)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	for _, index := range indices {
		f, err := d.Create(w.t.Context(), index, 0, 0, func() error { return nil })
		if err == nil {
			_, err = f.Send(w.t.Context(), fmt.Appendf(nil, "{\"index\":{\"_index\":%[1]q,\"_id\":\"1\"}}\n{\"n\":1}\n{\"index\":{\"_index\":%[1]q,\"_id\":\"2\"}}\n{\"n\":2}\n", index), 2)
		}
		if err == nil {
			err = f.Commit(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if finish {
		if err := d.Finish(w.t.Context(), ""); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.dir, filepath.FromSlash(name))); err != nil {
		w.t.Fatal(err)
	}
}

// flip changes one byte of a file and leaves its size.
func (w *world) flip(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	b, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	b[bytes.LastIndexByte(b, '2')] = '7'
	if err := os.WriteFile(path, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestOnlyWholeExportsAreImported(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(w *world)
		says    string // part of the refusal; "" when the source is taken
		arrives int    // documents, with AllowPartial where it is refused
		warns   string
	}{
		{"a finished export", func(w *world) { w.export("", true, "a", "b") }, "", 4, ""},
		{"a finished export without documents", func(w *world) { w.export("", true) }, "", 0, ""},
		{"finished exports side by side", func(w *world) { w.export("x", true, "a"); w.export("y", true, "b") }, "", 4, ""},
		{"an unfinished export after its first file", func(w *world) { w.export("", false, "a") }, "not complete", 2, ""},
		{"an unfinished export beside a finished one", func(w *world) { w.export("x", true, "a"); w.export("y", false, "b") }, "y/: the export is not complete", 4, ""},
		{"a file is missing", func(w *world) { w.export("", true, "a", "b"); w.remove("b") }, "b/0-0.ndjson: the file is in the manifest and missing", 2, ""},
		{"a file has another size", func(w *world) {
			w.export("", true, "a", "b")
			w.write("b/0-0.ndjson", "{\"index\":{\"_index\":\"b\",\"_id\":\"1\"}}\n{\"n\":1}\n")
		}, "b/0-0.ndjson: the file has 43 bytes, 86 were exported", 3, ""},
		{"a file has the same size and other content", func(w *world) { w.export("", true, "a", "b"); w.flip("b/0-0.ndjson") }, "b/0-0.ndjson: the content differs from the exported content", 4, ""},
		{"a file that the manifest does not know", func(w *world) {
			w.export("", true, "a")
			w.write("z/0-0.ndjson", "{\"index\":{\"_index\":\"z\",\"_id\":\"1\"}}\n{}\n")
		}, "z/0-0.ndjson: the file is not in the manifest", 3, ""},
		{"an object of a superseded attempt", func(w *world) {
			w.export("", true, "a")
			w.write("a/0-0.0123456789abcdef-000000.ndjson", "{\"index\":{\"_index\":\"a\",\"_id\":\"3\"}}\n{}\n")
		}, "", 2, ""},
		{"an object of an attempt while the export runs", func(w *world) {
			w.export("", false, "a")
			w.write("a/0-0.0123456789abcdef-000000.ndjson", "{\"index\":{\"_index\":\"a\",\"_id\":\"3\"}}\n{}\n")
		}, "not complete", 3, ""},
		{"a damaged manifest", func(w *world) { w.export("", true, "a"); w.write(export.ManifestName, "{") }, "rfsd-export.json: unexpected end", 2, ""},
		{"files of other tools", func(w *world) { w.write("a.ndjson", "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n") }, "", 1, "files without a manifest"},
		{"files of other tools beside a temporary file", func(w *world) {
			w.write("a.ndjson", "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n")
			w.write("b/0-0.ndjson.gz.tmp-dead", "x")
		}, "b/0-0.ndjson.gz.tmp-dead: the file is unfinished", 1, "files without a manifest"},
		{"an export that ended before its manifest was written", func(w *world) {
			w.export("", false, "a")
			w.remove(export.ManifestName)
			w.write(".rfsd/coordinator.db", "x")
		}, "the export is not complete", 2, "files without a manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c.make(w)
				var log bytes.Buffer
				logged := func(m *importer.Import) { m.Log = slog.New(slog.NewTextHandler(&log, nil)) }
				s, err := w.node(logged).Run(t.Context())
				if c.says != "" {
					if !errors.Is(err, importer.ErrPartial) || !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "--allow-partial") {
						t.Errorf("error %v, want %q", err, c.says)
					}
					if len(w.target.docs) != 0 || s.Complete {
						t.Errorf("%d documents arrived all the same", len(w.target.docs))
					}
					s, err = w.node(logged, func(m *importer.Import) { m.AllowPartial = true }).Run(t.Context())
				}
				if err != nil || !s.Complete || len(w.target.docs) != c.arrives {
					t.Errorf("%d documents, want %d; %+v, %v", len(w.target.docs), c.arrives, s, err)
				}
				if c.warns != "" != strings.Contains(log.String(), "files without a manifest") {
					t.Errorf("log %q", log.String())
				}
			})
		})
	}
}

func TestDigestsAreReadOncePerImport(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.export("", true, "a", "b")
		ctx, stop := context.WithCancel(t.Context())
		w.node(func(m *importer.Import) {
			m.Tell = func(importer.Hold) { stop() } // stopped when the first window is claimed
		}).Run(ctx)
		w.flip("b/0-0.ndjson") // would be noticed if files were read again
		if s := run(t, w.node()); !s.Complete || len(w.target.docs) != 4 {
			t.Errorf("%+v", s)
		}
	})
}
