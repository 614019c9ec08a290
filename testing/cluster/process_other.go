//go:build unix && !linux

package cluster

import "syscall"

const diesWithParent = false

// attributes returns attributes for a process in its own group. Without a parent death signal, a killed test leaves its nodes running.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
