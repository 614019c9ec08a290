//go:build unix

package export

import (
	"os"
	"syscall"
)

// tryLock takes the lock of an open file; it ends with the process at the latest.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
