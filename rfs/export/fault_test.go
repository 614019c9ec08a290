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
)

// faulty is the file system of the operating system, whose call number fails goes wrong.
type faulty struct {
	system
	root  string // the export directory
	calls []string
	fails int
	err   error
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
	return faultyHandle{h, f}, err
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
func (f *faulty) Lock(path, holder string) (io.Closer, error) {
	if err := f.call("lock"); err != nil {
		return nil, err
	}
	return f.system.Lock(path, holder)
}

type faultyHandle struct {
	Handle
	f *faulty
}

// Write writes half of b when the disk is full.
func (h faultyHandle) Write(b []byte) (int, error) {
	if err := h.f.call("write"); err != nil {
		n, werr := h.Handle.Write(b[:len(b)/2])
		return n, errors.Join(err, werr)
	}
	return h.Handle.Write(b)
}
func (h faultyHandle) Sync() error  { return h.f.call("sync") }
func (h faultyHandle) Close() error { return errors.Join(h.f.call("close"), h.Handle.Close()) }

// exportOn exports two items, one of them twice, and finishes the export.
func exportOn(t *testing.T, files *faulty, dir string, c Compression) error {
	files.root = dir
	d, err := OpenOn(files, dir, "w", c)
	if err != nil {
		return err
	}
	defer d.Close()
	for n, body := range []string{pair("i", "1") + pair("i_a", "1"), pair("i", "1"), pair("j", "1") + pair("j", "2")} {
		f, err := d.Create([]string{"i", "i", "j"}[n], 0, 0)
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
	return d.Finish("")
}

// TestNoErrorOfTheDiskIsOverlooked fails each call of an export in turn: a failing write, a failing fsync, a full disk.
func TestNoErrorOfTheDiskIsOverlooked(t *testing.T) {
	broken := errors.New("no space left on device")
	ways := []Compression{Gzip}
	if !testing.Short() {
		ways = append(ways, None, Zstd)
	}
	for _, c := range ways {
		whole := &faulty{fails: -1}
		if err := exportOn(t, whole, t.TempDir(), c); err != nil {
			t.Fatal(err)
		}
		for n, call := range whole.calls {
			t.Run(fmt.Sprintf("%s/%d %s", c, n, call), func(t *testing.T) {
				dir := t.TempDir()
				err := exportOn(t, &faulty{fails: n, err: broken}, dir, c)
				if !errors.Is(err, broken) {
					t.Errorf("call %d, %s: %v", n, call, err)
				}
				if b, err := os.ReadFile(filepath.Join(dir, ManifestName)); err == nil && strings.Contains(string(b), `"complete": true`) && n < len(whole.calls)-1 {
					t.Errorf("call %d, %s: the export is called complete", n, call)
				}
				if err := exportOn(t, &faulty{fails: -1}, dir, c); err != nil {
					t.Fatalf("call %d, %s: the next run: %v", n, call, err)
				}
				m := manifest(t, dir)
				if !m.Complete || m.Documents != 3 || len(m.Files) != 2 {
					t.Errorf("call %d, %s: after the next run %+v", n, call, m)
				}
				for name := range tree(t, dir) {
					if strings.Contains(name, ".tmp-") {
						t.Errorf("%s is left", name)
					}
				}
			})
		}
	}
}

func TestItemsAndBodiesAreChecked(t *testing.T) {
	d := openDir(t, t.TempDir(), "w", None)
	for _, c := range [][2]int64{{-1, 0}, {0, -1}} {
		if _, err := d.Create("i", int(c[0]), c[1]); err == nil {
			t.Errorf("created %v", c)
		}
	}
}
