package worker_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/summary"
)

var demo = filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")

func openExport(t *testing.T, dir string) *export.Export {
	t.Helper()
	d, err := export.Open(dir, "w", export.None)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// exportOnce exports the fixture in a process of its own, ended after some bodies when after > 0.
func exportOnce(t *testing.T, dir string, after int64) (*summary.Summary, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := openExport(t, filepath.Join(dir, "out"))
	defer d.Close()
	to := interrupting{engine.ToFiles(d), after, cancel, new(atomic.Int64)}
	return runTo(ctx, t, dir, demo, "state.db", engine.Limited(to, func(context.Context, int) error { return nil }), nil)
}

// interrupting is an export directory that ends the run after some bodies.
type interrupting struct {
	engine.Destination
	after int64
	end   context.CancelFunc
	sent  *atomic.Int64
}

func (d interrupting) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := d.Destination.Open(ctx, id, mayStart)
	return interruptingOutput{out, d}, err
}

// Finish writes the manifest of the export.
func (d interrupting) Finish(ctx context.Context, missing string) error {
	return d.Destination.(engine.Finisher).Finish(ctx, missing)
}

type interruptingOutput struct {
	engine.Output
	d interrupting
}

func (o interruptingOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if o.d.sent.Add(1) == o.d.after {
		defer o.d.end()
	}
	return o.Output.Send(ctx, body, n)
}

func exported(t *testing.T, dir string) (m export.Manifest, documents int64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "out", export.ManifestName))
	if err == nil {
		m, err = export.ParseManifest(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(dir, "out"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".ndjson") {
			return err
		}
		b, err := os.ReadFile(path)
		documents += int64(bytes.Count(b, []byte("\n")) / 2)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, documents
}

func TestExportEndsWithItsManifest(t *testing.T) {
	t.Run("complete after the last item", func(t *testing.T) {
		dir := t.TempDir()
		sum, err := exportOnce(t, dir, 0)
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		if m, n := exported(t, dir); !m.Complete || m.Documents != sum.Totals.Indexed || n != m.Documents || n == 0 {
			t.Errorf("%+v; %d documents in the files, %d indexed", m, n, sum.Totals.Indexed)
		}
	})
	t.Run("incomplete while interrupted, complete with every document when continued", func(t *testing.T) {
		dir := t.TempDir()
		interrupted := 0
		for range 200 {
			sum, err := exportOnce(t, dir, 3)
			if err == nil && sum.Complete {
				break
			}
			interrupted++
			if m, _ := exported(t, dir); m.Complete {
				t.Fatalf("complete after %v", err)
			}
		}
		sum, err := exportOnce(t, dir, 0)
		if err != nil || !sum.Complete || interrupted == 0 {
			t.Fatalf("%+v, %v after %d interruptions", sum, err, interrupted)
		}
		if m, n := exported(t, dir); !m.Complete || m.Documents != sum.Totals.Indexed || n != m.Documents {
			t.Errorf("%+v; %d documents in the files, %d indexed", m, n, sum.Totals.Indexed)
		}
	})
	t.Run("written by the next run when the process died before it", func(t *testing.T) {
		dir := t.TempDir()
		if _, err := exportOnce(t, dir, 0); err != nil {
			t.Fatal(err)
		}
		d := openExport(t, filepath.Join(dir, "out"))
		if err := d.Finish(t.Context(), "as if it were not written"); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if _, err := exportOnce(t, dir, 0); err != nil {
			t.Fatal(err)
		}
		if m, n := exported(t, dir); !m.Complete || n != m.Documents {
			t.Errorf("%+v; %d documents", m, n)
		}
	})
	t.Run("not written by a run that has nothing to do when a file is gone", func(t *testing.T) {
		dir := t.TempDir()
		if _, err := exportOnce(t, dir, 0); err != nil {
			t.Fatal(err)
		}
		m, _ := exported(t, dir)
		if err := os.Remove(filepath.Join(dir, "out", m.Files[0].Name)); err != nil {
			t.Fatal(err)
		}
		if _, err := exportOnce(t, dir, 0); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), m.Files[0].Name) {
			t.Errorf("%v", err)
		}
	})
}
