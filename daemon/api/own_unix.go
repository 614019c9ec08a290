//go:build unix

package api

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// onlyForUser reports whether only the user of this process can enter a directory.
func onlyForUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

// processExists reports whether a process of any user has the id.
func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
