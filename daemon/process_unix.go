//go:build unix

package daemon

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow refuses to open a symbolic link.
const noFollow = unix.O_NOFOLLOW

// apart keeps an interruption at the terminal from the workers: the daemon passes it on.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }
