//go:build !unix

package main

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked by another process")

// lockFile cannot prove anything here: leases of a dead process run out instead.
func lockFile(*os.File) error { return errors.ErrUnsupported }
