package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Dir is a repository in a directory. Symbolic links that lead out of it are refused.
type Dir struct {
	root *os.Root
	path string
}

// NewDir opens a directory as a repository. Errors: fault.ErrConfig if it is not a directory.
func NewDir(root string) (*Dir, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	r, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig) // err names the path
	}
	return &Dir{root: r, path: abs}, nil
}

// URI returns the file URI of the directory.
func (d *Dir) URI() string { return "file://" + d.path }

// Open streams a part of a file.
func (d *Dir) Open(_ context.Context, name string, off, n int64) (io.ReadCloser, error) {
	f, size, err := d.open(name)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = max(size-off, 0)
	}
	if off < 0 || off > size-n {
		f.Close()
		return nil, fault.Corrupt(name, "", size, "the file ends before the %d bytes from %d on", n, off)
	}
	if off > 0 {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			f.Close()
			return nil, fileError(name, err)
		}
	}
	return &exact{ReadCloser: &openFile{File: f, name: name}, left: n, total: size, short: func(left int64) error {
		return fault.Corrupt(name, "", off+n-left, "the file ends %d bytes early", left)
	}}, nil
}

// open opens a regular file and returns its size. A pipe, which may have no writer, does not block it.
func (d *Dir) open(name string) (f *os.File, size int64, err error) {
	if err := checkName(name); err != nil {
		return nil, 0, err
	}
	if f, err = d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); errors.Is(err, syscall.ENXIO) { // a socket
		return nil, 0, notRegular(name)
	} else if err != nil {
		return nil, 0, fileError(name, err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, info.Size(), nil
	}
	f.Close()
	if err != nil {
		return nil, 0, fileError(name, err)
	}
	return nil, 0, notRegular(name)
}

func notRegular(name string) error {
	return fmt.Errorf("blob %s is not a file: %w", name, fs.ErrNotExist)
}

// openFile is an open file that wraps errors with their category.
type openFile struct {
	*os.File
	name string
}

func (f *openFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fileError(f.name, err)
	}
	return n, err
}

// Stat returns the size of a file.
func (d *Dir) Stat(_ context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	info, err := d.root.Stat(name)
	if err != nil {
		return 0, fileError(name, err)
	}
	if !info.Mode().IsRegular() {
		return 0, notRegular(name)
	}
	return info.Size(), nil
}

// List walks the deepest directory that contains the prefix.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		start := strings.TrimSuffix(prefix, "/")
		if !strings.HasSuffix(prefix, "/") {
			start = path.Dir(prefix)
		}
		if start == "" || prefix == "" {
			start = "."
		}
		deep := strings.HasSuffix(prefix, "/") || prefix == ""
		err := fs.WalkDir(d.root.FS(), start, func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && name == start:
				return fs.SkipAll // nothing has that prefix
			case err != nil:
				return fileError(name, err)
			case ctx.Err() != nil:
				return ctx.Err()
			case e.IsDir() && name != start && !deep && !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/"):
				return fs.SkipDir
			case !e.Type().IsRegular() || !strings.HasPrefix(name, prefix):
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return fileError(name, err)
			}
			if !yield(Blob{Name: name, Size: info.Size()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Blob{}, fmt.Errorf("list %s*: %w", prefix, err))
		}
	}
}

// fileError wraps an error of the file system with its category: a missing file stays fs.ErrNotExist, any other error (permission,
// input/output) is not damage of the snapshot.
func fileError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("blob %s: %w: %w", name, err, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("blob %s: %w: %w", name, err, fault.ErrConfig)
	}
	return fmt.Errorf("blob %s: %w: %w", name, err, fault.ErrUnavailable)
}
