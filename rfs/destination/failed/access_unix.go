//go:build unix

package failed

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// mayCreateIn returns an error unless this process may create files in a directory.
func mayCreateIn(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}
