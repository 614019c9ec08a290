package failed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// Files is the file system of a Writer. Open uses the operating system's; tests use implementations that fail or
// lose unsynced data.
type Files interface {
	MkdirAll(path string, perm fs.FileMode) error
	// OpenFile opens a file for reading and appending.
	OpenFile(path string, flag int, perm fs.FileMode) (Handle, error)
	// SyncDir makes the entries of a directory durable.
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

// Discard is a file system that keeps nothing, for dry runs: a Writer on it does all its work except for the disk's.
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

// discarded is the null device; truncating or syncing it would fail.
type discarded struct{ *os.File }

func (discarded) Truncate(int64) error { return nil }
func (discarded) Sync() error          { return nil }
