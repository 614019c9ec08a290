//go:build unix

package api

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ownedByUser reports whether a file belongs to the user of this process.
func ownedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// processExists reports whether a process runs, of whichever user.
func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
