package failed

import (
	"errors"
	"os"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// lockShared acquires a shared lock on a file until it is closed, which Reserve reports as ErrInUse. It does nothing on a file
// system without locks.
func lockShared(f *os.File) error { return locked(files.Lock(f, files.Shared)) }

// Reserve locks a file of failed documents exclusively until it is closed. It returns ErrInUse
// while the process that writes the file lives.
func Reserve(f *os.File) error {
	err := files.Lock(f, files.TryExclusive)
	if errors.Is(err, files.ErrLocked) {
		return ErrInUse
	}
	return locked(err)
}

// locked returns err, or nil if the error is that the file system has no locks.
func locked(err error) error {
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
