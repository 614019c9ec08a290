package help_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/help"
)

// TestSetProgram_ListsCommands prints the help of a program and of a group of commands, with a text that is no template.
func TestSetProgram_ListsCommands(t *testing.T) {
	t.Setenv("COLUMNS", "70")
	for _, c := range []struct{ name, args, want string }{
		{"a program", "p", "p - do {{.X}}\n\nUsage: p COMMAND [options]\n\nCommands:\n  items  list or change\n\np COMMAND --help shows"},
		{"a group", "p items", "p items - list or change\n\nUsage: p items COMMAND [options]\n\nAn item is one.\n\nCommands:\n  list  list {{.}}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			app := &cli.App{Name: "p", Usage: "do {{.X}}", Writer: &out, Commands: []*cli.Command{
				{Name: "items", Usage: "list or change", Description: "An item is one.", Subcommands: []*cli.Command{{Name: "list", Usage: "list {{.}}"}, {Name: "old", Hidden: true}}},
				{Name: "man", Hidden: true},
			}}
			help.SetProgram(app)
			if err := app.RunContext(t.Context(), strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if !strings.HasPrefix(got, c.want) || strings.Contains(got, "old") || strings.Contains(got, "man\n") {
				t.Errorf("%s", got)
			}
			for line := range strings.Lines(got) {
				if len(line) > 71 {
					t.Errorf("a line of %d columns: %s", len(line), line)
				}
			}
		})
	}
}
