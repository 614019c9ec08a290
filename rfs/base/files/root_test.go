//go:build unix

package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// service is the user of a service, other is a further one.
const service, other = 65534, 65533

// serviceDir returns a directory of the service, below one of root that everyone can enter, and a file of root next to it.
func serviceDir(t *testing.T) (dir, precious string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	top := t.TempDir()
	must(t, os.Chmod(top, 0o755))
	dir, precious = filepath.Join(top, "service"), filepath.Join(top, "precious")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Lchown(dir, service, service))
	must(t, os.WriteFile(precious, []byte("precious"), 0o600))
	return dir, precious
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no owner")
	}
	return int(is.Uid)
}

// TestRoot_InADirectoryOfAService checks what root does in a directory whose owner attacks it.
func TestRoot_InADirectoryOfAService(t *testing.T) {
	for _, c := range []struct {
		name   string
		attack func(t *testing.T, dir, precious string)
		do     func(dir string) error
		err    error // nil: it is done, and what it made is the service's
	}{
		{"a new file", nil, func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, nil},
		{"a new directory", nil, func(dir string) error { return MkdirAll(filepath.Join(dir, "x", "y"), 0o700) }, nil},
		{"a file of the service is replaced", func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
			must(t, os.Chown(filepath.Join(dir, "x"), service, service))
		}, func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, nil},
		{"the directory leads elsewhere", func(t *testing.T, dir, precious string) {
			must(t, os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755))
			must(t, os.Symlink(filepath.Dir(precious), filepath.Join(dir, "sub")))
		}, func(dir string) error { return Replace(filepath.Join(dir, "sub", "precious"), 0o600, text("attack")) }, errAny},
		{"a directory above leads elsewhere", func(t *testing.T, dir, precious string) {
			must(t, os.Symlink(filepath.Dir(filepath.Dir(precious)), filepath.Join(dir, "sub")))
		}, func(dir string) error {
			return Replace(filepath.Join(dir, "sub", filepath.Base(filepath.Dir(dir)), "precious"), 0o600, text("attack"))
		}, errAny},
		{"a relative link leads out of it", func(t *testing.T, dir, _ string) { must(t, os.Symlink("..", filepath.Join(dir, "sub"))) },
			func(dir string) error { return Replace(filepath.Join(dir, "sub", "precious"), 0o600, text("attack")) }, errAny},
		{"a hard link to a file of root", func(t *testing.T, dir, precious string) { must(t, os.Link(precious, filepath.Join(dir, "x"))) },
			func(dir string) error {
				_, err := OpenFile(filepath.Join(dir, "x"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
				return err
			}, fault.ErrConfig},
		{"a hard link to a file of root is replaced", func(t *testing.T, dir, precious string) { must(t, os.Link(precious, filepath.Join(dir, "x"))) },
			func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("attack")) }, fault.ErrConfig},
		{"a file of a third user", func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
			must(t, os.Chown(filepath.Join(dir, "x"), other, other))
		}, func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, fault.ErrConfig},
		{"everyone can write it", func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o777)) },
			func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, fault.ErrConfig},
		{"a directory of root that everyone can write", func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777)))
		}, func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, fault.ErrConfig},
		{"a directory of root that a group can write", func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.Chown(dir, 0, service), os.Chmod(dir, 0o775)))
		}, func(dir string) error { return MkdirAll(filepath.Join(dir, "x"), 0o700) }, fault.ErrConfig},
		{"a foreign file in a directory for all", func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777|os.ModeSticky), os.WriteFile(filepath.Join(dir, "x"), nil, 0o666)))
			must(t, os.Chown(filepath.Join(dir, "x"), other, other))
		}, func(dir string) error {
			_, err := OpenFile(filepath.Join(dir, "x"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
			return err
		}, fault.ErrConfig},
		{"a hard link in a directory for all", func(t *testing.T, dir, precious string) {
			must(t, errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777|os.ModeSticky), os.Link(precious, filepath.Join(dir, "x"))))
		}, func(dir string) error {
			_, err := OpenFile(filepath.Join(dir, "x"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
			return err
		}, fault.ErrConfig},
		{"the service's group can write it", func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o775)) },
			func(dir string) error { return Replace(filepath.Join(dir, "x"), 0o600, text("x")) }, nil},
		{"a link in a directory for all", func(t *testing.T, dir, precious string) {
			must(t, errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777|os.ModeSticky), os.Symlink(filepath.Dir(precious), filepath.Join(dir, "sub"))))
		}, func(dir string) error { return Replace(filepath.Join(dir, "sub", "new"), 0o600, text("attack")) }, errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, precious := serviceDir(t)
			if c.attack != nil {
				c.attack(t, dir, precious)
			}
			err := c.do(dir)
			if got := content(t, precious); got != "precious" || ownerOf(t, precious) != 0 || len(names(t, filepath.Dir(precious))) != 2 {
				t.Errorf("the file of root holds %q and belongs to %d; beside it are %q", got, ownerOf(t, precious), names(t, filepath.Dir(precious)))
			}
			switch {
			case c.err == nil && err != nil, c.err != nil && err == nil, c.err != nil && !errors.Is(c.err, errAny) && !errors.Is(err, c.err):
				t.Errorf("%v, want %v", err, c.err)
			case c.err == nil:
				if is := ownerOf(t, filepath.Join(dir, "x")); is != service {
					t.Errorf("it belongs to %d", is)
				}
			}
		})
	}
}

// errAny stands for an error of the system.
var errAny = errors.New("any")

// TestRoot_InItsOwnDirectories checks what root does where only root can have put files, and in directories for all.
func TestRoot_InItsOwnDirectories(t *testing.T) {
	for _, c := range []struct {
		name   string
		group  int
		mode   os.FileMode
		linked bool // the file has another name
	}{
		{"only root can write it", 0, 0o755, false},
		{"a group can only read it", service, 0o755, false},
		{"the group of root can write it", 0, 0o775, false},
		{"a directory for all", 0, 0o777 | os.ModeSticky, false},
		{"a file that has another name", 0, 0o755, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := serviceDir(t)
			must(t, errors.Join(os.Chown(dir, 0, c.group), os.Chmod(dir, c.mode)))
			path := filepath.Join(dir, "x")
			if c.linked {
				must(t, errors.Join(os.WriteFile(filepath.Join(dir, "y"), nil, 0o600), os.Link(filepath.Join(dir, "y"), path)))
			}
			f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
			must(t, err)
			must(t, errors.Join(f.Close(), Replace(path, 0o600, text("x")), MkdirAll(filepath.Join(dir, "d"), 0o700)))
			for _, name := range []string{"x", "d"} {
				info, err := os.Lstat(filepath.Join(dir, name))
				must(t, err)
				if is := statOf(info); is.Uid != 0 || is.Gid != 0 {
					t.Errorf("%s belongs to %d, group %d", name, is.Uid, is.Gid)
				}
			}
		})
	}
}

// TestRoot_KeepsWhatIsItsOwn checks that a file of root in another user's directory keeps its owner.
func TestRoot_KeepsWhatIsItsOwn(t *testing.T) {
	dir, _ := serviceDir(t)
	path := filepath.Join(dir, "x")
	must(t, os.WriteFile(path, []byte("secret"), 0o600))
	must(t, Replace(path, 0o600, text("secret, too")))
	if is := ownerOf(t, path); is != 0 {
		t.Errorf("it belongs to %d", is)
	}
}

// TestRoot_FollowsItsOwnLinks checks that links that only root can have created are followed, such as one to a data disk.
func TestRoot_FollowsItsOwnLinks(t *testing.T) {
	dir, precious := serviceDir(t)
	must(t, os.Chmod(filepath.Dir(precious), 0o755))
	must(t, os.Symlink("service", filepath.Join(filepath.Dir(precious), "link")))
	must(t, Replace(filepath.Join(filepath.Dir(precious), "link", "x"), 0o600, text("x")))
	if got := content(t, filepath.Join(dir, "x")); got != "x" {
		t.Errorf("%q", got)
	}
}
