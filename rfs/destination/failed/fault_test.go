package failed

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
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// disk is a file system with one file, which fails when it is told to and forgets what was not synced.
type disk struct {
	content, synced []byte
	room            int  // bytes that may still be written; -1: no limit
	named           bool // the directory was synced since the file was made
	calls           []string
	fails           map[string]error // by call, once each
	always          map[string]error // by call
}

func newDisk() *disk { return &disk{room: -1, fails: map[string]error{}, always: map[string]error{}} }

func (d *disk) call(name string) error {
	d.calls = append(d.calls, name)
	err := d.fails[name]
	delete(d.fails, name)
	return errors.Join(err, d.always[name])
}

func (d *disk) count(name string) int {
	n := 0
	for _, c := range d.calls {
		if c == name {
			n++
		}
	}
	return n
}

func (d *disk) MkdirAll(string, fs.FileMode) error { return d.call("mkdir") }
func (d *disk) OpenFile(string, int, fs.FileMode) (Handle, error) {
	return &handle{d: d}, d.call("open")
}
func (d *disk) SyncDir(string) error {
	d.named = true
	return d.call("syncdir")
}

type handle struct {
	d *disk
}

func (h *handle) Write(b []byte) (int, error) {
	if err := h.d.call("write"); err != nil {
		return 0, err
	}
	n := len(b)
	if h.d.room >= 0 {
		n = min(n, h.d.room)
		h.d.room -= n
	}
	h.d.content = append(h.d.content, b[:n]...)
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	if err := h.d.call("read"); err != nil {
		return 0, err
	}
	n := copy(b, h.d.content[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Seek(int64, int) (int64, error) {
	return int64(len(h.d.content)), h.d.call("seek")
}

func (h *handle) Truncate(size int64) error {
	if err := h.d.call("truncate"); err != nil {
		return err
	}
	h.d.content = h.d.content[:size]
	return nil
}

func (h *handle) Sync() error {
	if err := h.d.call("sync"); err != nil {
		return err
	}
	h.d.synced = slices.Clone(h.d.content)
	return nil
}

func (h *handle) Close() error { return h.d.call("close") }

var (
	errFull   = errors.New("no space left on device")
	errFsync  = errors.New("input/output error")
	errBroken = errors.New("broken")
)

func writerOn(t *testing.T, d *disk) *Writer {
	t.Helper()
	w, err := OpenOn(d, "dir", "w", Full)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ordinals(t *testing.T, content []byte) []int64 {
	t.Helper()
	var all []int64
	for line := range strings.Lines(string(content)) {
		f, err := failedtest.Parse([]byte(line))
		if err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("the file holds %q: %v", line, err)
		}
		all = append(all, f.Ordinal)
	}
	return all
}

func failures(ordinals ...int64) []doc.Failure {
	all := make([]doc.Failure, len(ordinals))
	for i, o := range ordinals {
		all[i] = doc.Failure{Index: "i", Ordinal: o, Source: []byte(`{"a":1}`)}
	}
	return all
}

func TestWriterOnAFailingDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d *disk, w *Writer)
	}{
		{"a synced failure survives a crash of the machine", func(t *testing.T, d *disk, w *Writer) {
			if err := errors.Join(w.Record(t.Context(), failures(1, 2)), w.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
			if got := ordinals(t, d.synced); !slices.Equal(got, []int64{1, 2}) || !d.named {
				t.Errorf("after a crash: %v, name durable: %v", got, d.named)
			}
		}},
		{"nothing new is not synced again", func(t *testing.T, d *disk, w *Writer) {
			for range 3 {
				if err := w.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if d.count("sync") != 0 {
				t.Error("synced without a failure")
			}
			for range 2 {
				if err := errors.Join(w.Record(t.Context(), failures(1)), w.Sync(t.Context()), w.Sync(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if n := d.count("sync"); n != 2 {
				t.Errorf("%d syncs for 2 records", n)
			}
		}},
		{"a close makes durable what no sync has", func(t *testing.T, d *disk, w *Writer) {
			if err := errors.Join(w.Record(t.Context(), failures(1)), w.Close()); err != nil {
				t.Fatal(err)
			}
			if got := ordinals(t, d.synced); !slices.Equal(got, []int64{1}) || d.count("close") != 1 {
				t.Errorf("%v after %v", got, d.calls)
			}
			if err := w.Record(t.Context(), failures(2)); !errors.Is(err, os.ErrClosed) {
				t.Errorf("a closed writer: %v", err)
			}
			if err := w.Close(); err != nil || d.count("close") != 1 {
				t.Errorf("closed again: %v, %v", err, d.calls)
			}
		}},
		{"an error of the close is reported", func(t *testing.T, d *disk, w *Writer) {
			d.fails["close"] = errBroken
			if err := errors.Join(w.Record(t.Context(), failures(1)), w.Close()); !errors.Is(err, errBroken) {
				t.Error(err)
			}
		}},
		{"a full disk leaves whole lines, also those that were synced, and ends the writer", func(t *testing.T, d *disk, w *Writer) {
			if err := errors.Join(w.Record(t.Context(), failures(1)), w.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
			d.room = len(d.content) + 10 // one more line and a part of the next
			if err := w.Record(t.Context(), failures(2, 3, 4)); !errors.Is(err, errFull) {
				t.Errorf("recorded on a full disk: %v", err)
			}
			if got := ordinals(t, d.content); !slices.Equal(got, []int64{1, 2}) {
				t.Errorf("the file holds %v", got)
			}
			d.room = -1
			if err := w.Record(t.Context(), failures(5)); !errors.Is(err, errFull) {
				t.Errorf("continues after a failed write: %v", err)
			}
			if err := w.Sync(t.Context()); !errors.Is(err, errFull) {
				t.Errorf("synced after a failed write: %v", err)
			}
			if err := w.Close(); !errors.Is(err, errFull) || d.count("close") != 1 {
				t.Errorf("closed after a failed write: %v, %v", err, d.calls)
			}
			if got := ordinals(t, d.content); !slices.Equal(got, []int64{1, 2}) {
				t.Errorf("the file holds %v at the end", got)
			}
		}},
		{"a write that fails without a byte", func(t *testing.T, d *disk, w *Writer) {
			d.fails["write"] = errBroken
			if err := w.Record(t.Context(), failures(1)); !errors.Is(err, errBroken) {
				t.Errorf("recorded: %v", err)
			}
			if err := w.Record(t.Context(), failures(2)); !errors.Is(err, errBroken) || len(d.content) != 0 {
				t.Errorf("continues: %v, %q", err, d.content)
			}
		}},
		{"a torn line that cannot be cut off is reported as well", func(t *testing.T, d *disk, w *Writer) {
			if err := w.Record(t.Context(), failures(1)); err != nil {
				t.Fatal(err)
			}
			d.room, d.fails["truncate"] = 5, errBroken
			if err := w.Record(t.Context(), failures(2)); !errors.Is(err, errFull) || !errors.Is(err, errBroken) {
				t.Error(err)
			}
		}},
		{"a failed fsync ends the writer, and a second one is not believed", func(t *testing.T, d *disk, w *Writer) {
			if err := w.Record(t.Context(), failures(1)); err != nil {
				t.Fatal(err)
			}
			d.fails["sync"] = errFsync
			for range 3 {
				if err := w.Sync(t.Context()); !errors.Is(err, errFsync) {
					t.Errorf("sync: %v", err)
				}
			}
			if err := w.Record(t.Context(), failures(2)); !errors.Is(err, errFsync) {
				t.Errorf("record: %v", err)
			}
			if n := d.count("sync"); n != 1 {
				t.Errorf("fsync was tried %d times", n)
			}
			if err := w.Close(); !errors.Is(err, errFsync) || d.count("close") != 1 {
				t.Errorf("close: %v, %v", err, d.calls)
			}
		}},
		{"a directory that cannot be synced ends the writer", func(t *testing.T, d *disk, w *Writer) {
			d.fails["syncdir"] = errFsync
			for range 2 {
				if err := w.Record(t.Context(), failures(1)); !errors.Is(err, errFsync) {
					t.Errorf("record: %v", err)
				}
			}
			if d.count("syncdir") != 1 || d.count("close") != 1 || d.count("write") != 0 {
				t.Errorf("%v", d.calls)
			}
		}},
		{"a file that cannot be opened is tried again", func(t *testing.T, d *disk, w *Writer) {
			d.fails["open"] = errBroken
			if err := w.Record(t.Context(), failures(1)); !errors.Is(err, errBroken) {
				t.Errorf("record: %v", err)
			}
			if err := errors.Join(w.Record(t.Context(), failures(2)), w.Sync(t.Context())); err != nil || !slices.Equal(ordinals(t, d.synced), []int64{2}) {
				t.Errorf("%v, %q", err, d.synced)
			}
		}},
		{"the file is opened and its directory synced once", func(t *testing.T, d *disk, w *Writer) {
			if err := errors.Join(w.Record(t.Context(), failures(1)), w.Record(t.Context(), failures(2))); err != nil {
				t.Fatal(err)
			}
			if d.count("open") != 1 || d.count("syncdir") != 1 {
				t.Errorf("%v", d.calls)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk()
			c.test(t, d, writerOn(t, d))
		})
	}
}

func TestWhatAFormerProcessLeftUnfinishedIsCutOff(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct{ name, there, stays string }{
		{"nothing", "", ""},
		{"whole lines", "{}\n{}\n", "{}\n{}\n"},
		{"a torn line", "{}\n{\"a", "{}\n"},
		{"a torn line alone", "{\"a", ""},
		{"a torn line longer than the buffer", "{}\n" + long + long + "y", "{}\n"},
		{"a torn line of exactly the buffer", "{}\n" + long, "{}\n"},
		{"a line feed as the first byte", "\n" + long + "y", "\n"},
		{"a whole line longer than the buffer", long + long + "\n", long + long + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk()
			d.content = []byte(c.there)
			w := writerOn(t, d)
			if err := w.Record(t.Context(), failures(7)); err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(string(d.content), c.stays)
			if !ok || !slices.Equal(ordinals(t, []byte(rest)), []int64{7}) {
				t.Errorf("the file holds %.80q", d.content)
			}
		})
	}
	for _, call := range []string{"seek", "read", "truncate"} {
		t.Run(call+" fails", func(t *testing.T) {
			d := newDisk()
			d.content, d.always[call] = []byte("{}\n{\"a"), errBroken
			w := writerOn(t, d)
			if err := w.Record(t.Context(), failures(7)); !errors.Is(err, errBroken) || d.count("write") != 0 || d.count("close") != 1 {
				t.Errorf("%v, %v", err, d.calls)
			}
		})
	}
	d := newDisk()
	d.fails["mkdir"] = errBroken
	w := writerOn(t, d)
	if err := w.Record(t.Context(), failures(7)); !errors.Is(err, errBroken) || !errors.Is(err, fault.ErrConfig) || d.count("open") != 0 {
		t.Errorf("a directory that cannot be made: %v, %v", err, d.calls)
	}
}

func TestTheDirectoryIsPrivateAndItsNameDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "failed")
	record(t, open(t, dir, "w"), failures(1)...)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := (system{}).SyncDir(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync of no directory: %v", err)
	}
}

// TestAWriterThatKeepsNothing checks that it takes failures as another writer does, and never fails for the null device.
func TestAWriterThatKeepsNothing(t *testing.T) {
	w, err := OpenOn(Discard{}, "none", "w", Full)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := errors.Join(w.Record(t.Context(), []doc.Failure{{Index: "i", ID: "1", Reason: doc.BadSource}}), w.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
