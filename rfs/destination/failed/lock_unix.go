//go:build unix

package failed

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockShared marks a file as being written until it is closed, where the file system can lock.
func lockShared(f *os.File) error {
	return locked(unix.Flock(int(f.Fd()), unix.LOCK_SH))
}

// locked returns the error of a lock; nil if the file system has no locks.
func locked(err error) error {
	if errors.Is(err, unix.ENOLCK) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// mayCreateIn returns an error unless this process may create files in a directory.
func mayCreateIn(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

// Reserve locks a file of failed documents, until it is closed, against the process that writes it. It returns ErrInUse
// while that process lives.
func Reserve(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return locked(err)
}
