package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestJSON_Errors: whatever fails, and wherever, standard output is one document with the error.
func TestJSON_Errors(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct{ name, line, command, says string }{
		{"no such command", "statsu --output json", "rfsctl", "rfsctl has no command statsu"},
		{"no such option", "--output=json snapshot list --repo nowhere", "rfsctl", ""},
		{"an option of another command", "snapshot list --watch --output json", "rfsctl", "no option --watch"},
		{"an option without its value", "snapshot list --output json --repo-uri", "rfsctl", "--repo-uri is given without its value"},
		{"a wrong value", "logs --limit many --output json", "rfsctl logs", "--limit"},
		{"a missing option", "snapshot list --output json", "rfsctl snapshot list", "--repo-uri is missing"},
		{"no repository", "snapshot list --output json --repo-uri " + nowhere, "rfsctl snapshot list", nowhere},
		{"no node", "status --output json --node " + nowhere, "rfsctl status", nowhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := rfsctl(t, strings.Fields(c.line)...)
			if c.says == "" { // --output is an option of commands
				if code == 0 {
					t.Errorf("%s%s", stdout, stderr)
				}
				return
			}
			all, err := outputtest.Documents(stdout)
			if err != nil || len(all) != 1 {
				t.Fatalf("%v in %q %s", err, stdout, stderr)
			}
			d := all[0]
			if d.ExitCode == nil || *d.ExitCode != code || code == 0 || d.Command != c.command || d.Data != nil || !strings.Contains(d.Error, c.says) || stderr != "rfsctl: "+d.Error+"\n" {
				t.Errorf("exit %d: %s%s", code, stdout, stderr)
			}
		})
	}
	t.Run("by the environment", func(t *testing.T) {
		t.Setenv("RFS_OUTPUT", "json")
		for _, line := range []string{"statsu", "snapshot list"} {
			_, stdout, _ := rfsctl(t, strings.Fields(line)...)
			if all, err := outputtest.Documents(stdout); err != nil || len(all) != 1 || all[0].Error == "" {
				t.Errorf("%s: %v %s", line, err, stdout)
			}
		}
		code, stdout, _ := rfsctl(t, "version", "--output", "text")
		if code != 0 || stdout != "rfsctl dev\n" {
			t.Errorf("the command line wins: %q", stdout)
		}
	})
}
