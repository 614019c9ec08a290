package state

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
)

// Dir returns the user's directory for state that survives the run.
func Dir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "rfsd"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", config.Usage("no home directory for the state of the work: give --coordinator-file")
	}
	return filepath.Join(home, ".local", "state", "rfsd"), nil
}

// NodeDir returns the directory for the state of this machine's nodes.
func NodeDir() (string, error) {
	if given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); given != "" {
		return filepath.Join(given, "nodes"), nil
	}
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "nodes"), nil
}
