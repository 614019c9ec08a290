//go:build !unix

package export

import (
	"errors"
	"os"
)

func lockFile(*os.File, Locking) error { return errors.ErrUnsupported }
