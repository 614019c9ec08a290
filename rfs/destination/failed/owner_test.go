package failed_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// bucket keeps the names of objects.
type bucket []string

func (b *bucket) Put(_ context.Context, name string, _ []byte) error {
	*b = append(*b, name)
	return nil
}

func TestOwner_NamesBelongToOneSession(t *testing.T) {
	names := map[string]bool{ // whether it belongs to the session "former" only
		"dir/split-aa.ndjson": false, "s/x~0123456789abcdef/0/w/000000.ndjson": false, "dir~0123456789abcdef/w.ndjson": false,
	}
	dir, objects, unowned := t.TempDir(), bucket{}, bucket{}
	former := func(context.Context) (string, error) { return "former", nil }
	w, err := failed.Open(dir, "w", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	w.Owner = former
	o, err := failed.NewObjects(&objects, "s", "w", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	o.Owner = former
	plain, err := failed.NewObjects(&unowned, "plain", "w", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []interface {
		Record(context.Context, []doc.Failure) error
		Close() error
	}{w, o, plain} {
		for range 2 {
			if err := r.Record(t.Context(), []doc.Failure{{Index: "i", ID: "1"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || len(objects) != 1 || len(unowned) != 1 {
		t.Fatalf("%v %v %v %v", files, objects, unowned, err)
	}
	names[filepath.Join(dir, files[0].Name())], names[objects[0]], names[unowned[0]] = true, true, false
	for name, owned := range names {
		if failed.OfAnother(name, "former") {
			t.Errorf("%s does not belong to its session", name)
		}
		if failed.OfAnother(name, "next") != owned {
			t.Errorf("%s belongs to another session: %v, want %v", name, !owned, owned)
		}
	}
}

// TestOwner_IsAskedAgainAfterAnError checks that no file or object is named for a session that is not known, and that none is lost.
func TestOwner_IsAskedAgainAfterAnError(t *testing.T) {
	broken := errors.New("the store does not answer")
	for _, c := range []struct {
		name string
		// recorder returns a recorder, and a function that returns the names of its files or objects
		recorder func(t *testing.T, owner failed.Owner) (bulk.Recorder, func() []string)
	}{
		{"a file", func(t *testing.T, owner failed.Owner) (bulk.Recorder, func() []string) {
			dir := t.TempDir()
			w, err := failed.Open(dir, "w", failed.Full)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			w.Owner = owner
			return w, func() []string {
				names, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				return names
			}
		}},
		{"objects", func(t *testing.T, owner failed.Owner) (bulk.Recorder, func() []string) {
			b := bucket{}
			o, err := failed.NewObjects(&b, "s", "w", failed.Full)
			if err != nil {
				t.Fatal(err)
			}
			o.Owner = owner
			return o, func() []string { return b }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fails := broken
			r, names := c.recorder(t, func(context.Context) (string, error) { return "former", fails })
			keep := func() error {
				if err := r.Record(t.Context(), []doc.Failure{{Index: "i", ID: "1"}}); err != nil {
					return err
				}
				return r.Sync(t.Context())
			}
			if err := keep(); !errors.Is(err, broken) || len(names()) != 0 {
				t.Errorf("%v, %q", err, names())
			}
			fails = nil
			if err := keep(); err != nil {
				t.Fatal(err)
			}
			if got := names(); len(got) != 1 || !failed.OfAnother(got[0], "next") || failed.OfAnother(got[0], "former") {
				t.Errorf("%q", got)
			}
		})
	}
}
