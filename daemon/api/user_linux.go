package api

import (
	"net"

	"golang.org/x/sys/unix"
)

// userOf returns the user of the process at the other end of a Unix socket, or unknownUser.
func userOf(conn net.Conn) int {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return unknownUser
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return unknownUser
	}
	user := unknownUser
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			user = int(cred.Uid)
		}
	})
	if err != nil {
		return unknownUser
	}
	return user
}
