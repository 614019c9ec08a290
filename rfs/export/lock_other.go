//go:build !unix

package export

import (
	"errors"
	"os"
)

func tryLock(*os.File) error { return errors.ErrUnsupported }
