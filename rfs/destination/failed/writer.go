// Package failed records the documents that did not arrive, with the reasons, as lines of JSON: appended
// to one file per writer in a directory, or as objects in a store. They are synced before a watermark passes them.
package failed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

const extension = ".ndjson"

// Writer appends failures to DIR/<writer>.ndjson, or to DIR/<writer>~<mark>.ndjson with an Owner. It is safe for concurrent use.
type Writer struct {
	// Owner is set before the first failure; nil: the name of the file has no mark.
	Owner Owner

	files   Files
	path    string
	content Content

	mu   sync.Mutex
	f    Handle // nil until the first failure: a run without failures leaves no file
	size int64  // bytes of whole lines
	buf  []byte
	err  error // of a failed write or sync, after which the content of the disk is unknown
	open bool
	todo bool // written, not synced
}

// Open returns a Writer to dir. The id writer must be unique among the running processes. Open returns fault.ErrConfig if this process
// cannot write to dir, or create it. The first failure creates directory (0700) and file (0600), and removes an
// unfinished line that an earlier process of the same id left.
func Open(dir, writer string, content Content) (*Writer, error) {
	if err := writable(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	return OpenOn(system{}, dir, writer, content)
}

// writable returns an error unless this process may create files in dir, or in its nearest existing parent.
func writable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			dir = filepath.Dir(dir)
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		default:
			return mayCreateIn(dir)
		}
	}
}

// isName reports whether a name is a single path component that is not hidden.
func isName(name string) bool {
	return filepath.IsLocal(name) && name == filepath.Base(name) && name[0] != '.'
}

// OpenOn does what Open does, on another file system.
func OpenOn(files Files, dir, writer string, content Content) (*Writer, error) {
	if !isName(writer) {
		return nil, fmt.Errorf("writer id %q is not a file name: %w", writer, fault.ErrConfig)
	}
	return &Writer{files: files, path: filepath.Join(dir, writer+extension), content: content, open: true}, nil
}

// Record appends failures, which are durable after the next Sync. A failed write
// leaves only whole lines, and its error is final for the Writer.
func (w *Writer) Record(ctx context.Context, failures []doc.Failure) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(ctx); err != nil {
		return err
	}
	for i := range failures {
		w.buf = AppendLine(w.buf[:0], &failures[i], w.content)
		if _, err := w.f.Write(w.buf); err != nil {
			w.err = errors.Join(err, w.f.Truncate(w.size))
			return w.err
		}
		w.size += int64(len(w.buf))
		w.todo = true
		if cap(w.buf) > 1<<20 {
			w.buf = nil
		}
	}
	return nil
}

// ready opens the file if it is not open yet.
func (w *Writer) ready(ctx context.Context) error {
	switch {
	case w.err != nil:
		return w.err
	case !w.open:
		return fmt.Errorf("%s: %w", w.path, os.ErrClosed)
	case w.f != nil:
		return nil
	}
	owner, err := w.Owner.suffix(ctx)
	if err != nil {
		return err
	}
	w.path, w.Owner = strings.TrimSuffix(w.path, extension)+owner+extension, nil
	if err := w.files.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	f, err := w.files.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if w.size, err = wholeLines(f); err == nil {
		if err = f.Truncate(w.size); err == nil {
			err = w.files.SyncDir(filepath.Dir(w.path))
		}
	}
	if err != nil {
		w.err = errors.Join(err, f.Close())
		return w.err
	}
	w.f = f
	return nil
}

// wholeLines returns the length of f up to its last line feed.
func wholeLines(f Handle) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for end > 0 {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// Sync makes everything recorded so far durable. An error is final for the Writer, since
// a second fsync may succeed without having written the data.
func (w *Writer) Sync(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || !w.todo {
		return w.err
	}
	if w.err = w.f.Sync(); w.err == nil {
		w.todo = false
	}
	return w.err
}

// Close syncs and closes the file.
func (w *Writer) Close() error {
	err := w.Sync(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = false
	if w.f != nil {
		err = errors.Join(err, w.f.Close())
		w.f = nil
	}
	return err
}
