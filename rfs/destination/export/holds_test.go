package export

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestHolds(t *testing.T) {
	d := openDir(t, t.TempDir(), "w", Gzip)
	f := create(t, d, "Logs", 1, 40)
	send(t, f, pair("Logs", "1"))
	if there, err := d.Holds("Logs", 1, 40); err != nil || there {
		t.Errorf("before the end: %v %v", there, err)
	}
	if err := f.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for cursor, want := range map[int64]bool{40: true, 41: false} {
		if there, err := d.Holds("Logs", 1, cursor); err != nil || there != want {
			t.Errorf("cursor %d: %v %v", cursor, there, err)
		}
	}
}

func TestHoldsReportsWhatCannotBeLookedAt(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, "w", None)
	if err := os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600); err != nil { // where the folder belongs
		t.Fatal(err)
	}
	if there, err := d.Holds("logs", 0, 0); !errors.Is(err, fault.ErrConfig) || there {
		t.Errorf("%v, %v", there, err)
	}
}
