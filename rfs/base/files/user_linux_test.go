package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// asService runs do as the user of a service. On Linux each thread has its own user.
func asService(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	become := func(user uintptr) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), user, ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become(service)
	defer become(0)
	do()
}

// TestUser_ChecksNoOwners checks that a user other than root may do whatever the system permits, because the rules for root do not apply.
func TestUser_ChecksNoOwners(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir, precious string)
		do      func(dir string) error
	}{
		{"a directory that everyone can write", func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o777)) },
			func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }},
		{"a file of another user that everyone can write", func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
			must(t, errors.Join(os.Chmod(filepath.Join(dir, "x"), 0o666), os.Chown(filepath.Join(dir, "x"), other, other)))
		}, func(dir string) error {
			f, err := OpenFile(filepath.Join(dir, "x"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{"a file of another user is replaced", func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
			must(t, os.Chown(filepath.Join(dir, "x"), other, other))
		}, func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }},
		{"a link of its own to a directory", func(t *testing.T, dir, _ string) {
			must(t, os.Mkdir(filepath.Join(dir, "to"), 0o700))
			must(t, errors.Join(os.Chown(filepath.Join(dir, "to"), service, service), os.Symlink("to", filepath.Join(dir, "sub"))))
			must(t, os.Lchown(filepath.Join(dir, "sub"), service, service))
		}, func(dir string) error { return Replace(filepath.Join(dir, "sub", "x"), 0o600, text("x")) }},
		{"a directory is made", nil, func(dir string) error { return MkdirAll(filepath.Join(dir, "x", "y"), 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, precious := serviceDir(t)
			must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
			if c.prepare != nil {
				c.prepare(t, dir, precious)
			}
			asService(t, func() { must(t, c.do(dir)) })
		})
	}
}

// TestUser_WithoutPermission checks that an operation denied by the system is reported and leaves no trace.
func TestUser_WithoutPermission(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"a new file": func(dir string) error {
			_, err := OpenFile(filepath.Join(dir, "new"), os.O_WRONLY|os.O_CREATE, 0o600)
			return err
		},
		"a file that is there": func(dir string) error {
			_, err := OpenFile(filepath.Join(dir, "roots"), os.O_WRONLY|os.O_APPEND, 0)
			return err
		},
		"a directory":           func(dir string) error { return MkdirAll(filepath.Join(dir, "new"), 0o700) },
		"a directory in one":    func(dir string) error { return MkdirAll(filepath.Join(dir, "new", "inner"), 0o700) },
		"what replaces a file":  func(dir string) error { return Replace(filepath.Join(dir, "roots"), 0o600, text("x")) },
		"removing a file":       func(dir string) error { return Remove(filepath.Join(dir, "roots")) },
		"renaming a file":       func(dir string) error { return Rename(filepath.Join(dir, "roots"), filepath.Join(dir, "new")) },
		"removing drafts of it": func(dir string) error { return RemoveDrafts(filepath.Join(dir, "roots")) },
	} {
		t.Run(name, func(t *testing.T) {
			_, precious := serviceDir(t)
			top := filepath.Dir(precious)
			must(t, os.Chmod(filepath.Dir(top), 0o755))
			dir := filepath.Join(top, "of root")
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "roots"), []byte("roots"), 0o600))
			draft, err := NewDraft(filepath.Join(dir, "roots"), 0o600)
			must(t, err)
			before := names(t, dir)
			asService(t, func() {
				if err := do(dir); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%v", err)
				}
			})
			if got := names(t, dir); !slices.Equal(got, before) || content(t, filepath.Join(dir, "roots")) != "roots" {
				t.Errorf("%q are there, %q before", got, before)
			}
			must(t, draft.Drop())
		})
	}
}

// TestCreate_WhatCannotBeGivenToItsOwner checks that a file is removed if its owner cannot be changed.
func TestCreate_WhatCannotBeGivenToItsOwner(t *testing.T) {
	dir, precious := serviceDir(t)
	must(t, os.Chmod(filepath.Dir(filepath.Dir(precious)), 0o755))
	asService(t, func() {
		f, err := open(dir)
		must(t, err)
		defer f.Close()
		f.owner = owner{root: true, uid: other, gid: other}
		if _, err := f.create("file", os.O_WRONLY, 0o600, f.owner); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file: %v", err)
		}
		if err := f.mkdir("directory", 0o700); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a directory: %v", err)
		}
	})
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("%q are left", got)
	}
}

// TestHandles_NoneIsLeft checks that no operation leaves a file or directory open, even after an error.
func TestHandles_NoneIsLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "directory", "file")
	must(t, MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.Symlink("directory", filepath.Join(dir, "link")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
	must(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
	touch := func(path string, flag int) error {
		f, err := OpenFile(path, flag, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	must(t, touch(path, os.O_CREATE|os.O_WRONLY))
	handles := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	for _, c := range []struct {
		name  string
		do    func() error
		fails bool
	}{
		{"a file is opened", func() error { return touch(path, os.O_RDONLY) }, false},
		{"a file is opened by way of a link", func() error { return touch(filepath.Join(dir, "link", "file"), os.O_RDONLY) }, false},
		{"a file is replaced", func() error { return Replace(path, 0o600, text("x")) }, false},
		{"directories are made", func() error {
			return errors.Join(MkdirAll(filepath.Join(dir, "made"), 0o700), os.Remove(filepath.Join(dir, "made")))
		}, false},
		{"drafts are removed", func() error { return RemoveDrafts(path) }, false},
		{"directories are synced", func() error { return SyncDir(dir) }, false},
		{"links lead in a circle", func() error { return touch(filepath.Join(dir, "loop", "file"), os.O_RDONLY) }, true},
		{"a directory is missing", func() error { return touch(filepath.Join(dir, "directory", "missing", "file"), os.O_RDONLY) }, true},
		{"a directory is a file", func() error { return touch(filepath.Join(path, "file"), os.O_RDONLY) }, true},
		{"a file that is read cannot be cut", func() error { return touch(path, os.O_RDONLY|os.O_TRUNC) }, true},
		{"writing fails", func() error { return Replace(path, 0o600, func(w io.Writer) error { return errAny }) }, true},
		{"everyone can write the directory", func() error { return Replace(filepath.Join(dir, "open", "file"), 0o600, text("x")) }, os.Geteuid() == 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it closes what nobody refers to
			before := handles()
			for range 20 {
				if err := c.do(); (err != nil) != c.fails {
					t.Fatal(err)
				}
			}
			if after := handles(); after > before+5 { // some may be of other tests
				t.Errorf("%d more are open", after-before)
			}
		})
	}
	if err := SyncDir("/proc"); err == nil {
		t.Error("a directory that cannot be synced was reported as durable")
	}
	proc, err := open("/proc")
	must(t, err)
	defer proc.Close()
	if err := proc.sync(); err == nil {
		t.Error("an opened directory that cannot be synced was reported as durable")
	}
}

// TestUnchanged_WhatIsReplacedWhileItIsOpened checks that a file replaced while it is opened is refused.
func TestUnchanged_WhatIsReplacedWhileItIsOpened(t *testing.T) {
	dir := t.TempDir()
	var infos []fs.FileInfo
	for _, name := range []string{"a", "b"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		info, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		infos = append(infos, info)
	}
	for _, c := range []struct {
		name string
		is   fs.FileInfo
		err  error
		want error
	}{
		{"the same file", infos[0], nil, nil},
		{"another file", infos[1], nil, fault.ErrConfig},
		{"it cannot be found out", nil, errAny, errAny},
	} {
		if err := unchanged(filepath.Join(dir, "a"), infos[0], c.is, c.err); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestWorkingDirectory_Removed checks that a relative path in a removed working directory is refused.
func TestWorkingDirectory_Removed(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	must(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	must(t, os.Remove(gone))
	for name, do := range map[string]func() error{
		"Replace":  func() error { return Replace("x", 0o600, text("x")) },
		"MkdirAll": func() error { return MkdirAll("x", 0o700) },
	} {
		if err := do(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
