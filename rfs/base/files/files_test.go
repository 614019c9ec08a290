package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// text writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// names returns the names in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestOpenFile_IsThatOfTheSystem checks the behaviour shared with os.OpenFile.
func TestOpenFile_IsThatOfTheSystem(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write := func(flag int, s string) error {
		f, err := OpenFile(path, flag, 0o640)
		if err != nil {
			return err
		}
		_, err = f.WriteString(s)
		return errors.Join(err, f.Close())
	}
	if err := write(os.O_WRONLY, "x"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is missing: %v", err)
	}
	must(t, write(os.O_WRONLY|os.O_CREATE, "one"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := write(os.O_WRONLY|os.O_CREATE|os.O_EXCL, "x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there: %v", err)
	}
	must(t, write(os.O_WRONLY|os.O_APPEND|os.O_CREATE, "two"))
	if got := content(t, path); got != "onetwo" {
		t.Errorf("appended: %q", got)
	}
	must(t, write(os.O_WRONLY|os.O_TRUNC|os.O_CREATE, "three"))
	if got := content(t, path); got != "three" {
		t.Errorf("truncated: %q", got)
	}
	if _, err := OpenFile(filepath.Join(dir, "none", "a"), os.O_CREATE|os.O_WRONLY, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is missing: %v", err)
	}
}

// TestLinks_AreNotFollowed puts links where files are created and replaced.
func TestLinks_AreNotFollowed(t *testing.T) {
	for name, do := range map[string]func(path string) error{
		"append": func(path string) error {
			_, err := OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			return err
		},
		"truncate": func(path string) error {
			_, err := OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
			return err
		},
		"create": func(path string) error {
			_, err := OpenFile(path, os.O_WRONLY|os.O_EXCL|os.O_CREATE, 0o600)
			return err
		},
		"replace": func(path string) error { return Replace(path, 0o600, text("attack")) },
	} {
		for _, to := range []string{"precious", "absent"} {
			t.Run(name+" a link to "+to, func(t *testing.T) {
				dir := t.TempDir()
				must(t, os.WriteFile(filepath.Join(dir, "precious"), []byte("precious"), 0o600))
				path := filepath.Join(dir, "link")
				must(t, os.Symlink(to, path))
				if err := do(path); err == nil || name != "create" && !errors.Is(err, fault.ErrConfig) {
					t.Errorf("%v", err)
				}
				if got := content(t, filepath.Join(dir, "precious")); got != "precious" {
					t.Errorf("the file holds %q", got)
				}
				if got := names(t, dir); len(got) != 2 {
					t.Errorf("%q are there", got)
				}
			})
		}
	}
}

// TestReplace_IsAtomicAndItsNameIsRandom checks that a dropped draft changes nothing.
func TestReplace_IsAtomicAndItsNameIsRandom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, Replace(path, 0o600, text("one")))
	must(t, Replace(path, 0o600, text("two")))
	broken := errors.New("broken")
	if err := Replace(path, 0o600, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	var temps []string
	for range 2 {
		d, err := NewDraft(path, 0o600)
		must(t, err)
		temps = append(temps, filepath.Base(d.Name()))
		if len(names(t, dir)) != 2 {
			t.Errorf("%q", names(t, dir))
		}
		must(t, errors.Join(d.Drop(), d.Drop()))
	}
	if temps[0] == temps[1] || !strings.HasPrefix(temps[0], ".a.") {
		t.Errorf("%q", temps)
	}
	if got := content(t, path); got != "two" || len(names(t, dir)) != 1 {
		t.Errorf("%q, %q", got, names(t, dir))
	}
	for _, name := range []string{"." + "a.redrive", ".ab." + temps[0][3:], temps[0] + "X", temps[1]} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, RemoveDrafts(path))
	if got := names(t, dir); len(got) != 4 || slices.Contains(got, temps[1]) {
		t.Errorf("after the drafts were removed: %q", got)
	}
	d, err := NewDraft(path, 0o600)
	must(t, err)
	must(t, d.Commit())
	if err := d.Drop(); err != nil || content(t, path) != "" {
		t.Errorf("after a commit: %v, %q", err, content(t, path))
	}
}

func TestMkdirAll_MakesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	must(t, errors.Join(MkdirAll(path, 0o700), MkdirAll(path, 0o700)))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if err := MkdirAll(filepath.Join(file, "b"), 0o700); err == nil {
		t.Error("a directory below a file")
	}
	must(t, os.Symlink(filepath.Join(dir, "none"), filepath.Join(dir, "link")))
	if err := errors.Join(MkdirAll(filepath.Join(dir, "link"), 0o700)); err != nil || len(names(t, dir)) != 3 {
		t.Errorf("a link that leads nowhere: %v, %q", err, names(t, dir))
	}
}

func TestRename_StaysInItsDirectory(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, os.WriteFile(a, []byte("a"), 0o600))
	must(t, Rename(a, b))
	if got := content(t, b); got != "a" || len(names(t, dir)) != 1 {
		t.Errorf("%q, %q", got, names(t, dir))
	}
	if err := Rename(b, filepath.Join(dir, "c", "b")); !errors.Is(err, fault.ErrConfig) {
		t.Error(err)
	}
	if err := Rename(a, b); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}

func TestRemove_DoesNotFollowALink(t *testing.T) {
	dir := t.TempDir()
	precious, link := filepath.Join(dir, "precious"), filepath.Join(dir, "link")
	must(t, os.WriteFile(precious, nil, 0o600))
	must(t, os.Symlink(precious, link))
	must(t, Remove(link))
	if got := names(t, dir); !slices.Equal(got, []string{"precious"}) {
		t.Errorf("%q", got)
	}
	if err := Remove(link); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
