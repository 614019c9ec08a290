package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestErrors_NameThePath: operations that cannot do anything return an error.
func TestErrors_NameThePath(t *testing.T) {
	operations := map[string]func(path string) error{
		"OpenFile": func(path string) error { _, err := OpenFile(path, os.O_RDONLY, 0o600); return err },
		"create":   func(path string) error { _, err := OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); return err },
		"NewDraft": func(path string) error { _, err := NewDraft(path, 0o600); return err },
		"Replace":  func(path string) error { return Replace(path, 0o600, text("x")) },
		"Rename":   func(path string) error { return Rename(path, path+"2") },
		"Remove":   Remove,
		"SyncDir":  SyncDir,
		"MkdirAll": func(path string) error { return MkdirAll(path, 0o700) },
		"drafts":   RemoveDrafts,
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Symlink("missing", filepath.Join(dir, "broken")))
	makes := []string{"MkdirAll"}
	for _, c := range []struct {
		name, path string
		not        []string // these can do it
	}{
		{"the directory is missing", "missing/x", makes},
		{"the directory is a file", "file/x", nil},
		{"a link leads to itself", "loop/x", nil},
		{"a link leads nowhere", "broken/x", nil},
		{"a link leads nowhere, further up", "broken/x/y", nil},
		{"the name is too long", strings.Repeat("x", 300), []string{"drafts"}},
		{"a directory is in the way", ".", []string{"SyncDir", "MkdirAll", "drafts"}},
		{"a file is in the way", "file", []string{"OpenFile", "create", "NewDraft", "Replace", "Rename", "Remove", "SyncDir", "drafts"}},
	} {
		for name, do := range operations {
			if slices.Contains(c.not, name) {
				continue
			}
			t.Run(c.name+"/"+name, func(t *testing.T) {
				path := filepath.Join(dir, c.path)
				if c.path == "." {
					path = filepath.Join(dir, "directory", "inner")
					must(t, os.MkdirAll(filepath.Join(path, "more"), 0o700))
					if name == "Rename" {
						must(t, os.MkdirAll(path+"2/more", 0o700))
					}
				}
				err := do(path)
				if err == nil || !strings.Contains(err.Error(), dir) {
					t.Errorf("it returns %v", err)
				}
			})
		}
	}
}

// TestOpenFile_CreatesExclusively: O_EXCL alone changes nothing.
func TestOpenFile_CreatesExclusively(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for i, want := range []error{nil, fs.ErrExist} {
		f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
		if f != nil {
			must(t, f.Close())
		}
	}
	f, err := OpenFile(path, os.O_RDONLY|os.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// TestLinks_ManyInARow: a path of forty links is followed, one of more is not.
func TestLinks_ManyInARow(t *testing.T) {
	for links, follows := range map[int]bool{maxLinks: true, maxLinks + 1: false} {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, "0"), 0o700))
		for i := range links {
			must(t, os.Symlink(fmt.Sprint(i), filepath.Join(dir, fmt.Sprint(i+1))))
		}
		err := Replace(filepath.Join(dir, fmt.Sprint(links), "x"), 0o600, text("x"))
		if (err == nil) != follows {
			t.Errorf("%d links: %v", links, err)
		}
	}
}

// TestRemoveDrafts_LeavesOtherFiles: only names that a draft of this very file can have are removed.
func TestRemoveDrafts_LeavesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	d, err := NewDraft(path, 0o600)
	must(t, err)
	must(t, d.File.Close())
	others := []string{".other.ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".state.ABCDEFGHIJKLMNOPQRSTUVWXY", ".state.abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "state"}
	for _, name := range others {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	slices.Sort(others)
	must(t, RemoveDrafts(path))
	if got := names(t, dir); !slices.Equal(got, others) {
		t.Errorf("%q are left, want %q", got, others)
	}
}

// TestDraft_CommitFails: the error is returned, and no draft is left.
func TestDraft_CommitFails(t *testing.T) {
	for name, breaks := range map[string]func(t *testing.T, d *Draft, path string){
		"it is closed":             func(t *testing.T, d *Draft, _ string) { must(t, d.File.Close()) },
		"a directory has the name": func(t *testing.T, _ *Draft, path string) { must(t, os.MkdirAll(filepath.Join(path, "x"), 0o700)) },
		"the draft itself was lost": func(t *testing.T, d *Draft, path string) {
			must(t, os.Remove(filepath.Join(filepath.Dir(path), d.temp)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			d, err := NewDraft(path, 0o600)
			must(t, err)
			breaks(t, d, path)
			if err := d.Commit(); err == nil {
				t.Error("it returns no error")
			}
			for _, left := range names(t, filepath.Dir(path)) {
				if left != "state" {
					t.Errorf("%s is left", left)
				}
			}
		})
	}
}
