package cluster

import (
	"os"
	"syscall"
)

// diesWithParent states that the kernel kills a node when the process that started it ends.
const diesWithParent = true

// attributes returns attributes for a process in its own group, killed with this process, and never running as root.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return a
}
