//go:build !unix && !windows

package files

import (
	"errors"
	"os"
)

// Lock returns errors.ErrUnsupported.
func Lock(*os.File, Locking) error { return errors.ErrUnsupported }
