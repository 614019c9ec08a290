package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/configtest"
)

func TestCommands(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "empty.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	source := []string{"--repo-uri", "/repo", "--snapshot-name", "s"}
	migration := append(source[:len(source):len(source)], "--discard")
	p := configtest.Program{App: newApp, Args: map[string][]string{
		"rfsd migrate": migration, "rfsd evaluate": migration, "rfsd verify": migration, "rfsd worker": migration, "rfsd run": migration, "rfsd estimate": source,
		"rfsd config check": append([]string{file}, migration...),
		"rfsd import":       {"--from", "files", "--target-host", "http://127.0.0.1:1"},
		"rfsd redrive":      {"--target-host", "http://127.0.0.1:1"},
	}}
	t.Run("are declared", p.TestCommandsAreDeclared)
	t.Run("refuse every wrong value by name", p.TestEveryWrongValueIsRefusedByName)
	t.Run("know no misspelt option", p.TestEveryMisspeltOptionIsUnknown)
	t.Run("have manual pages", func(t *testing.T) { p.TestEveryCommandHasAManualPage(t, manual.Pages(newApp())) })
}

// TestAnEstimateHasNoOptionsThatItIgnores: it took 48 and honoured 12.
func TestAnEstimateHasNoOptionsThatItIgnores(t *testing.T) {
	app := newApp()
	for _, name := range []string{"source-host", "index-rename", "verify-first", "phases", "multi-type"} {
		_, err := config.Arrange(app.Commands, []string{"rfsd", "estimate", "--" + name, "x"})
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "rfsd estimate has no option --"+name+", which is one of migrate") {
			t.Errorf("--%s: %v", name, err)
		}
	}
}

func TestOptionsMayStandBehindTheFileOfConfigCheck(t *testing.T) {
	app := newApp()
	args, err := config.Arrange(app.Commands, []string{"rfsd", "config", "check", "rfsd.toml", "--workers", "3"})
	if err != nil || strings.Join(args, " ") != "rfsd config check --workers 3 rfsd.toml" {
		t.Errorf("%q, %v", args, err)
	}
}
