//go:build unix

package daemon

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow makes opening a symbolic link fail.
const noFollow = unix.O_NOFOLLOW

// apart starts workers in their own process groups, so that an interrupt from the terminal reaches only the daemon.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }
