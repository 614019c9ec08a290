package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/guide"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/operation/verify"
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
		"rfsd migrate": migration, "rfsd plan": migration, "rfsd verify": migration, "rfsd worker": migration, "rfsd run": migration,
		"rfsd config check": append([]string{file}, migration...),
		"rfsd import":       {"--from", "files", "--target-host", "http://127.0.0.1:1"},
		"rfsd redrive":      {"--target-host", "http://127.0.0.1:1"},
	}}
	t.Run("are declared", p.TestCommandsAreDeclared)
	t.Run("refuse every wrong value by name", p.TestEveryWrongValueIsRefusedByName)
	t.Run("know no misspelt option", p.TestEveryMisspeltOptionIsUnknown)
	t.Run("have a help", p.TestHelp)
	t.Run("print JSON", func(t *testing.T) {
		p.TestOutput(t, map[string]any{
			"rfsd migrate": report.Migration{}, "rfsd follow": struct {
				Round    report.Migration     `json:"round"`
				Before   report.Arrived       `json:"arrived"`
				Cutover  report.CutoverResult `json:"cutover"`
				Finished finished             `json:"finished"`
			}{},
			"rfsd run": compared{}, "rfsd worker": nil, "rfsd plan": preflight.Report{}, "rfsd verify": compared{}, "rfsd import": report.Import{},
			"rfsd consume": report.Stream{}, "rfsd redrive": report.Redrive{}, "rfsd config check": printedFile{}, "rfsd config init": printedFile{}, "rfsd version": config.Versions{},
		})
	})
	t.Run("have manual pages", func(t *testing.T) { p.TestEveryCommandHasAManualPage(t, manual.Pages(newApp())) })
}

// compared has the members of a comparison, whose report is in it with the bytes of its digest.
type compared struct {
	verify.Sealed
	Text verify.Report `json:"text"`
}

// TestArrange_FormerCommands: a former command names the one that replaces it.
func TestArrange_FormerCommands(t *testing.T) {
	app := newApp()
	for former, now := range map[string]string{"evaluate": "rfsd plan", "estimate": "rfsd plan --only sizes"} {
		_, err := guide.Arrange(app.Commands, []string{"/usr/bin/rfsd", former, "--repo-uri", "x"})
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "rfsd "+former+" is now part of `"+now+"`") {
			t.Errorf("%s: %v", former, err)
		}
	}
}

func TestOptionsMayStandBehindTheFileOfConfigCheck(t *testing.T) {
	app := newApp()
	args, err := guide.Arrange(app.Commands, []string{"rfsd", "config", "check", "rfsd.toml", "--workers", "3"})
	if err != nil || strings.Join(args, " ") != "rfsd config check --workers 3 rfsd.toml" {
		t.Errorf("%q, %v", args, err)
	}
}
