package api

import (
	"net"

	"golang.org/x/sys/unix"
)

// userOf returns the user of the process at the other end of a Unix socket, nobody for other connections.
func userOf(conn net.Conn) int {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nobody
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nobody
	}
	user := nobody
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			user = int(cred.Uid)
		}
	})
	if err != nil {
		return nobody
	}
	return user
}
