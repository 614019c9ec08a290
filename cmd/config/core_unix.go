//go:build unix

package config

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ForbidCoreDumps lets neither this process nor those that it starts leave a core dump, which would hold their secrets.
func ForbidCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
