package cluster

import (
	"os"
	"syscall"
)

// diesWithParent: the kernel tells a node that the process which started it died.
const diesWithParent = true

// attributes: a group of its own, killed when this process dies, never root.
func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return a
}
