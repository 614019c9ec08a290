package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// faulty is the file system of the operating system, whose call number fails goes wrong.
type faulty struct {
	system
	root  string // the export directory
	calls []string
	fails int
	err   error
	open  int // files
}

func (f *faulty) call(name string) error {
	f.calls = append(f.calls, name)
	if len(f.calls)-1 == f.fails {
		return f.err
	}
	return nil
}

func (f *faulty) MkdirAll(path string, perm fs.FileMode) error {
	return errors.Join(f.call("mkdir"), f.system.MkdirAll(path, perm))
}
func (f *faulty) OpenFile(path string, flag int, perm fs.FileMode) (Handle, error) {
	if err := f.call("open"); err != nil {
		return nil, err
	}
	h, err := f.system.OpenFile(path, flag, perm)
	if err == nil {
		f.open++
	}
	return &faultyHandle{Handle: h, f: f}, err
}
func (f *faulty) ReadFile(path string) ([]byte, error) {
	if err := f.call("read"); err != nil {
		return nil, err
	}
	return f.system.ReadFile(path)
}
func (f *faulty) Rename(from, to string) error {
	if err := f.call("rename"); err != nil {
		return err
	}
	return f.system.Rename(from, to)
}

// SyncDir counts directories of the export and the one it lies in; the names above are older.
func (f *faulty) SyncDir(path string) error {
	if len(path) < len(filepath.Dir(f.root)) {
		return nil
	}
	return f.call("syncdir")
}
func (f *faulty) WalkDir(root string, visit fs.WalkDirFunc) error {
	if err := f.call("walk"); err != nil {
		return err
	}
	return f.system.WalkDir(root, visit)
}
func (f *faulty) Lock(path, holder string, how files.Locking) (io.Closer, error) {
	if err := f.call("lock"); err != nil {
		return nil, err
	}
	return f.system.Lock(path, holder, how)
}

type faultyHandle struct {
	Handle
	f      *faulty
	closed bool
}

// Write writes half of b when the disk is full.
func (h *faultyHandle) Write(b []byte) (int, error) {
	if err := h.f.call("write"); err != nil {
		n, werr := h.Handle.Write(b[:len(b)/2])
		return n, errors.Join(err, werr)
	}
	return h.Handle.Write(b)
}
func (h *faultyHandle) Sync() error { return h.f.call("sync") }
func (h *faultyHandle) Close() error {
	if !h.closed {
		h.f.open--
	}
	h.closed = true
	return errors.Join(h.f.call("close"), h.Handle.Close())
}

// exportOn exports two items, one of them twice, and finishes the export.
func exportOn(t *testing.T, files *faulty, dir string, c Compression) error {
	files.root = dir
	d, err := OpenOn(files, dir, "w", c)
	if err != nil {
		return err
	}
	defer d.Close()
	for n, body := range []string{pair("i", "1") + pair("i_a", "1"), pair("i", "1"), pair("j", "1") + pair("j", "2")} {
		f, err := d.Create(t.Context(), []string{"i", "i", "j"}[n], 0, 0, nil)
		if err != nil {
			return err
		}
		if _, err := f.Send(t.Context(), []byte(body), 1); err != nil {
			if _, again := f.Send(t.Context(), []byte(body), 1); again == nil {
				t.Error("a file takes documents after a write failed")
			}
			if f.Commit(t.Context()) == nil {
				t.Error("a file is committed after a write failed")
			}
			return errors.Join(err, f.Abort())
		}
		if err := f.Commit(t.Context()); err != nil {
			return errors.Join(err, f.Abort())
		}
	}
	return d.Finish(t.Context(), "")
}

// TestNoErrorOfTheDiskIsOverlooked fails each call of an export in turn: a failing write, a failing fsync, a full disk.
func TestNoErrorOfTheDiskIsOverlooked(t *testing.T) {
	broken := errors.New("no space left on device")
	ways := []Compression{None}
	if !testing.Short() {
		ways = append(ways, Gzip, Zstd)
	}
	for _, c := range ways {
		whole := &faulty{fails: -1}
		if err := exportOn(t, whole, t.TempDir(), c); err != nil {
			t.Fatal(err)
		}
		for n, call := range whole.calls {
			t.Run(fmt.Sprintf("%s/%d %s", c, n, call), func(t *testing.T) {
				dir := t.TempDir()
				files := &faulty{fails: n, err: broken}
				err := exportOn(t, files, dir, c)
				if !errors.Is(err, broken) {
					t.Errorf("call %d, %s: %v", n, call, err)
				}
				if files.open != 0 {
					t.Errorf("call %d, %s: %d files stay open", n, call, files.open)
				}
				if b, err := os.ReadFile(filepath.Join(dir, ManifestName)); err == nil && strings.Contains(string(b), `"complete": true`) && n < len(whole.calls)-1 {
					t.Errorf("call %d, %s: the export is called complete", n, call)
				}
				if err := exportOn(t, &faulty{fails: -1}, dir, c); err != nil {
					t.Fatalf("call %d, %s: the next run: %v", n, call, err)
				}
				m := manifest(t, dirHome(dir))
				if !m.Complete || m.Documents != 3 || len(m.Files) != 2 {
					t.Errorf("call %d, %s: after the next run %+v", n, call, m)
				}
				for name := range tree(t, dirHome(dir)) {
					if strings.Contains(name, ".tmp-") {
						t.Errorf("%s is left", name)
					}
				}
			})
		}
	}
}

func TestItemsAndBodiesAreChecked(t *testing.T) {
	d := enter(t, dirHome(t.TempDir()), "w", None)
	for _, c := range [][2]int64{{-1, 0}, {0, -1}} {
		if _, err := d.Create(t.Context(), "i", int(c[0]), c[1], nil); err == nil {
			t.Errorf("created %v", c)
		}
	}
}

// sick is the file system of the operating system with one call that goes wrong.
type sick struct {
	system
	walk, info, remove, rename error
}

func (s *sick) WalkDir(root string, visit fs.WalkDirFunc) error {
	return s.system.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if s.info != nil && e != nil {
			e = sickEntry{e, s.info}
		}
		return visit(path, e, errors.Join(err, s.walk))
	})
}

func (s *sick) Remove(path string) error { return errors.Join(s.remove, s.system.Remove(path)) }

func (s *sick) Rename(from, to string) error {
	if s.rename != nil {
		return s.rename
	}
	return s.system.Rename(from, to)
}

type sickEntry struct {
	fs.DirEntry
	err error
}

func (e sickEntry) Info() (fs.FileInfo, error) { return nil, e.err }

func TestErrorsOfTheDiskAreReported(t *testing.T) {
	broken := errors.New("input/output error")
	for _, c := range []struct {
		name string
		test func(t *testing.T, files *sick, d *Export, dir string) error
	}{
		{"of a folder that cannot be listed at the start", func(t *testing.T, files *sick, d *Export, dir string) error {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			files.walk = broken
			_, err := OpenOn(files, dir, "w", None)
			return err
		}},
		{"of a folder that cannot be listed at the end", func(_ *testing.T, files *sick, d *Export, _ string) error {
			files.walk = broken
			return d.Finish(t.Context(), "")
		}},
		{"of a file whose size is unknown", func(_ *testing.T, files *sick, d *Export, _ string) error {
			files.info = broken
			return d.Finish(t.Context(), "")
		}},
		{"of a temporary file that stays", func(t *testing.T, files *sick, d *Export, _ string) error {
			f := create(t, d, "j", 0, 0)
			send(t, f, pair("j", "1"))
			files.remove = broken
			return f.Abort()
		}},
		{"of a file of a former run that stays", func(t *testing.T, files *sick, d *Export, _ string) error {
			f := create(t, d, "i", 0, 0)
			files.remove = broken
			return f.Commit(t.Context())
		}},
		{"of the manifest that is to be marked as incomplete", func(t *testing.T, files *sick, d *Export, dir string) error {
			finish(t, d, "")
			files.rename = broken
			_, err := d.Create(t.Context(), "j", 0, 0, nil)
			files.rename = nil
			create(t, d, "j", 0, 0)
			wantManifest(t, dirHome(dir), false, nil)
			return err
		}},
		{"of the manifest at the end, which is written when asked again", func(t *testing.T, files *sick, d *Export, dir string) error {
			files.rename = broken
			err := d.Finish(t.Context(), "")
			files.rename = nil
			finish(t, d, "")
			wantManifest(t, dirHome(dir), true, map[string]int64{"i/0-0.ndjson": 1})
			return err
		}},
		{"of a directory that cannot be synced", func(t *testing.T, _ *sick, _ *Export, dir string) error {
			if err := (system{}).SyncDir(filepath.Join(dir, "absent")); errors.Is(err, fs.ErrNotExist) {
				return broken
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, dir := &sick{}, t.TempDir()
			d, err := OpenOn(files, dir, "w", None)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			if err := c.test(t, files, d, dir); !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheLockAndTheKernelReportWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".rfsd", "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "w", None); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "locked") {
		t.Errorf("a lock that is a folder: %v", err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full of Linux")
	}
	if err := (system{}).SyncDir("/proc"); err == nil {
		t.Error("a directory that cannot be synced was reported as durable")
	}
	if _, err := acquire("/dev/full", "w", files.TryExclusive); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "locked") {
		t.Errorf("a lock that takes no name: %v", err)
	}
}
