package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rfsd-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // only temporary files
		programs = dir
		if err := os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")); err != nil { // not in the user's
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}
