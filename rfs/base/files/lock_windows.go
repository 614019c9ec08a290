package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock acquires a lock on an open file, which the system releases when the file is closed. Windows prevents other processes from reading
// and writing the locked range, so the lock covers one byte beyond the end of any file. It returns ErrLocked.
func Lock(f *os.File, how Locking) error {
	var flags uint32
	if how == TryExclusive || how == Exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if how == TryExclusive || how == TryShared {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
