//go:build unix && !linux

package cluster

import "syscall"

const diesWithParent = false

// attributes: a group of its own. Without a parent death signal a killed test leaves its nodes behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
