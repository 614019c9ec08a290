package failed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// Files is the file system of a Writer. Open uses the one of the operating system; tests give others, which fail or
// forget what was not synced.
type Files interface {
	MkdirAll(path string, perm fs.FileMode) error
	// OpenFile opens a file to be read and appended to.
	OpenFile(path string, flag int, perm fs.FileMode) (Handle, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
}

// Handle is a file that is appended to.
type Handle interface {
	io.Writer
	io.ReaderAt
	io.Seeker
	io.Closer
	Truncate(size int64) error
	// Sync makes the content durable.
	Sync() error
}

// system is the file system of the operating system.
type system struct{}

func (system) MkdirAll(path string, perm fs.FileMode) error { return files.MkdirAll(path, perm) }
func (system) OpenFile(path string, flag int, perm fs.FileMode) (Handle, error) {
	f, err := files.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	if err := lockShared(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

func (system) SyncDir(path string) error { return files.SyncDir(path) }

// Discard is a file system that keeps nothing: a Writer on it takes as long as on a real one, but for the disk.
type Discard struct{}

// MkdirAll does nothing.
func (Discard) MkdirAll(string, fs.FileMode) error { return nil }

// OpenFile returns a file that is always empty.
func (Discard) OpenFile(string, int, fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	return discarded{f}, err
}

// SyncDir does nothing.
func (Discard) SyncDir(string) error { return nil }

// discarded is the null device, which can neither be truncated nor synced.
type discarded struct{ *os.File }

func (discarded) Truncate(int64) error { return nil }
func (discarded) Sync() error          { return nil }
