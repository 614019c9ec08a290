//go:build !unix

package daemon

import "syscall"

const noFollow = 0

func apart() *syscall.SysProcAttr { return nil }

func signalName(s syscall.Signal) string { return s.String() }
