//go:build unix

package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock acquires the flock(2) lock of an open file. The system releases it when the last process that inherited the file closes it. It
// returns ErrLocked, or errors.ErrUnsupported if the file system has no locks.
func Lock(f *os.File, how Locking) error {
	flags := map[Locking]int{TryExclusive: unix.LOCK_EX | unix.LOCK_NB, TryShared: unix.LOCK_SH | unix.LOCK_NB, Exclusive: unix.LOCK_EX, Shared: unix.LOCK_SH}[how]
	for {
		err := unix.Flock(int(f.Fd()), flags)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
