//go:build unix

package export

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock of an open file; it ends with the process at the latest.
func lockFile(f *os.File, how Locking) error {
	flags := map[Locking]int{Alone: syscall.LOCK_EX | syscall.LOCK_NB, Together: syscall.LOCK_SH | syscall.LOCK_NB, Turn: syscall.LOCK_EX}[how]
	for {
		if err := syscall.Flock(int(f.Fd()), flags); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
