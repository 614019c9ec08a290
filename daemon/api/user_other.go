//go:build !linux

package api

import "net"

// userOf returns unknownUser, so that only the total limit of a socket applies.
func userOf(net.Conn) int { return unknownUser }
