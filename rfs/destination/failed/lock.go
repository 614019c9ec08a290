package failed

import (
	"errors"
	"os"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// lockShared marks a file as being written until it is closed, where the file system can lock.
func lockShared(f *os.File) error { return locked(files.Lock(f, files.SharedTurn)) }

// Reserve locks a file of failed documents, until it is closed, against the process that writes it. It returns ErrInUse
// while that process lives.
func Reserve(f *os.File) error {
	err := files.Lock(f, files.Alone)
	if errors.Is(err, files.ErrLocked) {
		return ErrInUse
	}
	return locked(err)
}

// locked returns the error of a lock; nil if the file system has no locks.
func locked(err error) error {
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
