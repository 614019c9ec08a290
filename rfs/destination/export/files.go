package export

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// Files is the file system of an export directory. Open uses the operating system's; tests use implementations that
// fail or lose unsynced data.
type Files interface {
	MkdirAll(path string, perm fs.FileMode) error
	// OpenFile opens a file for writing.
	OpenFile(path string, flag int, perm fs.FileMode) (Handle, error)
	ReadFile(path string) ([]byte, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
	WalkDir(root string, visit fs.WalkDirFunc) error
	// Lock locks the file at path against other processes. An exclusive lock writes the name of its holder into the file.
	// Errors are fault.ErrConfig; if the file is locked, the error names the holder.
	Lock(path, holder string, how files.Locking) (io.Closer, error)
}

// Handle is a file that is being written.
type Handle interface {
	io.WriteCloser
	// Sync makes the content durable.
	Sync() error
}

// system is the file system of the operating system.
type system struct{}

func (system) MkdirAll(path string, perm fs.FileMode) error { return files.MkdirAll(path, perm) }
func (system) OpenFile(path string, flag int, perm fs.FileMode) (Handle, error) {
	return files.OpenFile(path, flag, perm)
}
func (system) ReadFile(path string) ([]byte, error)            { return os.ReadFile(path) }
func (system) Rename(from, to string) error                    { return files.Rename(from, to) }
func (system) Remove(path string) error                        { return os.Remove(path) }
func (system) WalkDir(root string, visit fs.WalkDirFunc) error { return filepath.WalkDir(root, visit) }
func (system) Lock(path, holder string, how files.Locking) (io.Closer, error) {
	return acquire(path, holder, how)
}

func (system) SyncDir(path string) error { return files.SyncDir(path) }

// replace durably writes a small file in an existing folder. After a crash the file has the old or the new content.
func replace(files Files, path string, b []byte) error {
	tmp := path + ".new"
	t, err := files.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = t.Write(b); err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	if err := files.Rename(tmp, path); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}
