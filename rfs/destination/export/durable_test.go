package export

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// deaf is the file system of the operating system, which cannot sync one directory.
type deaf struct {
	system
	dir string
	err error
}

func (s deaf) SyncDir(path string) error {
	if path == s.dir {
		return s.err
	}
	return s.system.SyncDir(path)
}

func TestOnlyTheDirectoryAndTheOneAboveMustBeSynced(t *testing.T) {
	top := t.TempDir()
	out := filepath.Join(top, "a", "b", "out")
	never := errors.New("no such operation")
	for _, c := range []struct {
		dir   string
		err   error
		opens bool
	}{{out, never, false}, {filepath.Dir(out), never, false}, {filepath.Join(top, "a"), never, true}, {top, never, true}, {filepath.Dir(out), fs.ErrPermission, true}} {
		d, err := OpenOn(deaf{dir: c.dir, err: c.err}, out, "w", None)
		if (err == nil) != c.opens {
			t.Errorf("%s cannot be synced (%v): %v", c.dir, c.err, err)
		}
		if err == nil {
			d.Close()
		}
	}
}

// journal is the file system of the operating system, which knows what a crash of the machine would lose: content that
// was not synced, and names in directories that were not synced since.
type journal struct {
	system
	root     string
	opened   bool            // the directories above are no concern any more
	content  map[string]bool // files written to since their last sync
	names    map[string]bool // directories with names that are not durable
	problems []string
}

func newJournal(root string) *journal {
	return &journal{root: root, content: map[string]bool{}, names: map[string]bool{}}
}

func (j *journal) MkdirAll(path string, perm fs.FileMode) error {
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		j.names[filepath.Dir(at)] = true
	}
	return j.system.MkdirAll(path, perm)
}

func (j *journal) OpenFile(path string, flag int, perm fs.FileMode) (Handle, error) {
	h, err := j.system.OpenFile(path, flag, perm)
	j.content[path], j.names[filepath.Dir(path)] = true, true
	return journalHandle{h, j, path}, err
}

func (j *journal) Rename(from, to string) error {
	if j.content[from] {
		j.problems = append(j.problems, from+" got its name before its content was durable")
	}
	j.names[filepath.Dir(to)] = true
	return j.system.Rename(from, to)
}

func (j *journal) Remove(path string) error {
	err := j.system.Remove(path)
	if err == nil {
		j.names[filepath.Dir(path)] = true
	}
	return err
}

func (j *journal) SyncDir(path string) error {
	if path != j.root && !strings.HasPrefix(path, j.root+"/") && j.opened {
		j.problems = append(j.problems, path+" does not belong to the export")
	}
	delete(j.names, path)
	return nil
}

type journalHandle struct {
	Handle
	j    *journal
	path string
}

func (h journalHandle) Write(b []byte) (int, error) {
	h.j.content[h.path] = true
	return h.Handle.Write(b)
}

func (h journalHandle) Sync() error {
	delete(h.j.content, h.path)
	return nil
}

// durable demands that nothing that was done can get lost.
func (j *journal) durable(t *testing.T, after string) {
	t.Helper()
	for _, p := range j.problems {
		t.Errorf("%s: %s", after, p)
	}
	for dir := range j.names {
		t.Errorf("%s: the names in %s are not durable", after, dir)
	}
}

func TestWhatIsCommittedSurvivesACrash(t *testing.T) {
	root := t.TempDir()
	for _, c := range []struct {
		name   string
		method Compression
		send   []string
	}{
		{"the first run", None, []string{pair("i", "1"), pair("i_a", "1"), pair(strings.Repeat("Long", 80), "1")}},
		{"a run that writes to fewer folders", None, []string{pair("i_a", "1")}},
		{"a run that compresses otherwise", Gzip, []string{pair("i_a", "1"), pair("i", "2")}},
		{"a run without documents", Zstd, nil},
	} {
		j := newJournal(root)
		d, err := OpenOn(j, root, "w", c.method)
		if err != nil {
			t.Fatal(err)
		}
		j.durable(t, c.name+", opened")
		j.opened = true
		f := create(t, d, "i", 0, 0)
		if len(c.send) > 0 {
			send(t, f, c.send...)
		}
		commit(t, f)
		j.durable(t, c.name+", committed")
		finish(t, d, "")
		j.durable(t, c.name+", finished")
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantTree(t, dirHome(root), map[string]string{})
}
