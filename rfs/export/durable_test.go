package export

import (
	"path/filepath"
	"slices"
	"testing"
)

// syncs is the file system of the operating system; it notes which directories are synced.
type syncs struct {
	system
	dirs []string
}

func (s *syncs) SyncDir(path string) error {
	s.dirs = append(s.dirs, path)
	return s.system.SyncDir(path)
}

func TestOpenMakesTheDirectoryItselfDurable(t *testing.T) {
	top := t.TempDir()
	files := &syncs{}
	d, err := OpenOn(files, filepath.Join(top, "new", "out"), "w", None)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(top, "new", "out"), filepath.Join(top, "new"), top} {
		if !slices.Contains(files.dirs, dir) {
			t.Errorf("%s is not synced", dir)
		}
	}
}
