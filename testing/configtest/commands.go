// Package configtest holds the tests that both programs run over their commands.
package configtest

import (
	"context"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/guide"
)

// Program is a program whose commands are tested.
type Program struct {
	App  func() *cli.App
	Args map[string][]string // arguments that a command needs before its options are checked, by its path
}

// anyText are settings that accept any text: names, and paths that may be created.
var anyText = []string{
	"username", "password", "aws-region", "aws-service", "aws-role-arn", // of a cluster
	"snapshot-name", "since", "s3-region", "s3-role-arn", "source-repo-location", "export-dir", "to", "rules-text", "coordinator-file", "metrics-file", "node-name", "group", "broker-username", "broker-password", "command", "socket", "status-socket",
	"allowed-hosts", "zone", "data-dir", "node", "index", "dir", "coordinator-s3-region", "coordinator-s3-role-arn",
}

func takesAnyText(name string) bool {
	for _, cluster := range []string{"source-", "target-", "coordinator-", "dashboards-"} {
		if rest, ok := strings.CutPrefix(name, cluster); ok && slices.Contains(anyText[:5], rest) {
			return true
		}
	}
	return slices.Contains(anyText[5:], name)
}

// wrong returns a value that a setting rejects, unless it accepts any text.
func wrong(s config.Setting) string {
	switch {
	case s.Name == "join":
		return "a b"
	case strings.Contains(s.Wants(), "s3://"):
		return "ftp://x"
	case s.Kind == config.List && s.Wants() == "a text":
		return "regex:("
	}
	return "/nowhere/?!"
}

// each calls do for every command of the app that has an action and appears in the help.
func each(app *cli.App, do func(path string, c *cli.Command)) {
	var walk func(prefix string, all []*cli.Command)
	walk = func(prefix string, all []*cli.Command) {
		for _, c := range all {
			if path := prefix + " " + c.Name; len(c.Subcommands) > 0 {
				walk(path, c.Subcommands)
			} else if !c.Hidden {
				do(path, c)
			}
		}
	}
	walk(app.Name, app.Commands)
}

// run runs a command line up to its error. It runs copies of the commands, because the library changes them.
func (p Program) run(t *testing.T, app *cli.App, path string, args ...string) error {
	t.Helper()
	words := strings.Fields(path)
	one := *app
	one.Commands = only(app.Commands, words[1:])
	one.Writer, one.ErrWriter, one.ExitErrHandler = io.Discard, io.Discard, func(*cli.Context, error) {}
	line, err := guide.Arrange(one.Commands, slices.Concat(words, p.Args[path], args))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // invalid values must be rejected before anything is done
	return one.RunContext(ctx, line)
}

// only returns a copy of the command of a path.
func only(commands []*cli.Command, path []string) []*cli.Command {
	for _, c := range commands {
		if len(path) > 0 && c.Name == path[0] {
			one := *c
			one.Subcommands = only(c.Subcommands, path[1:])
			return []*cli.Command{&one}
		}
	}
	return nil
}

// TestCommandsAreDeclared compares the commands with Specs.
func (p Program) TestCommandsAreDeclared(t *testing.T) {
	specs := map[string][]config.Setting{}
	for _, s := range Specs() {
		if strings.HasPrefix(s.Path, p.App().Name+" ") {
			specs[s.Path] = config.Settings(s.Settings)
		}
	}
	each(p.App(), func(path string, c *cli.Command) {
		want, ok := specs[path]
		if got := config.Honours(c); !ok || !reflect.DeepEqual(Names(got), Names(want)) || len(c.Flags) != 1 { // one flag declares all of them
			t.Errorf("%s: in Specs %v; it has %v, and %d flags", path, ok, Names(got), len(c.Flags))
		}
		delete(specs, path)
		for line := range strings.SplitSeq(c.Description, "\n") {
			if utf8.RuneCountInString(line) > 97 || strings.HasPrefix(line, "   ") {
				t.Errorf("%s: a line of the help is longer than 100 columns with its margin, or indented: %q", path, line)
			}
		}
	})
	for path := range specs {
		t.Errorf("%s is in Specs and no command", path)
	}
}

// TestEveryWrongValueIsRefusedByName passes an invalid value to every option of every command. The files named by rfsd config init may be
// on another machine.
func (p Program) TestEveryWrongValueIsRefusedByName(t *testing.T) {
	n := 0
	app := p.App() // command lines must not affect each other
	each(app, func(path string, c *cli.Command) {
		for _, s := range config.Honours(c) {
			if takesAnyText(s.Name) || path == "rfsd config init" {
				continue
			}
			n++
			given := "--" + s.Name + "=" + wrong(s)
			if err := p.run(t, app, path, given); err == nil || !strings.Contains(err.Error(), "--"+s.Name) {
				t.Errorf("%s %s: %v", path, given, err)
			}
		}
	})
	if n < 50 {
		t.Errorf("only %d options tried", n)
	}
}

// TestEveryMisspeltOptionIsUnknown changes a letter of every option of every command.
func (p Program) TestEveryMisspeltOptionIsUnknown(t *testing.T) {
	app := p.App()
	each(app, func(path string, c *cli.Command) {
		for _, s := range config.Honours(c) {
			if len(s.Name) < 5 {
				continue // another option may be as similar
			}
			misspelt := s.Name[:len(s.Name)-1] + "_"
			_, err := guide.Arrange(app.Commands, append(strings.Fields(path), "--"+misspelt, "x"))
			if s.Hidden {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "no option --"+misspelt) || !strings.Contains(err.Error(), "did you mean "+s.Name) {
				t.Errorf("%s --%s: %v", path, misspelt, err)
			}
		}
	})
}

// TestEveryCommandHasAManualPage looks for the commands of the program in its manual pages, which are Markdown by name.
func (p Program) TestEveryCommandHasAManualPage(t *testing.T, pages map[string]string) {
	for _, spec := range Specs() {
		if !strings.HasPrefix(spec.Path, p.App().Name+" ") {
			continue
		}
		if !strings.Contains(pages[strings.ReplaceAll(spec.Path, " ", "-")], "Exit codes:") {
			t.Errorf("%s has no page, or one without its exit codes", spec.Path)
		}
	}
}

// mostHelp is the longest text of an option, in characters: one line of a wide terminal, or two of a narrow one.
const mostHelp = 190

// TestHelp reads the help of every command: it fits two screens, its options and examples are the command's, and --help-all lists every option.
func (p Program) TestHelp(t *testing.T) {
	app := p.App()
	each(app, func(path string, c *cli.Command) {
		t.Run(path, func(t *testing.T) {
			words := strings.Fields(path)
			text := func(option string) string {
				if _, err := guide.Arrange(app.Commands, append(slices.Clone(words), option)); err != nil {
					t.Fatal(err)
				}
				return c.CustomHelpTemplate
			}
			full, short := text("--help-all"), text("--help")
			if n := strings.Count(short, "\n"); n > 52 {
				t.Errorf("the help has %d lines", n)
			}
			for _, line := range strings.Split(short+full, "\n") {
				if utf8.RuneCountInString(line) > 110 {
					t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
				}
			}
			for _, s := range config.Honours(c) {
				if n := utf8.RuneCountInString(s.Help); n == 0 || n > mostHelp || strings.HasSuffix(s.Help, ".") {
					t.Errorf("--%s has a text of %d characters, or of sentences; details belong into the docs: %s", s.Name, n, s.Help)
				}
				if lists := strings.Contains(full, "--"+s.Name+" ") || strings.Contains(full, "--"+s.Name+"\n"); lists == s.Hidden {
					t.Errorf("--help-all lists --%s: %t", s.Name, lists)
				}
			}
			_, frequent, _ := strings.Cut(short, "Frequent options")
			for line := range strings.Lines(frequent) {
				name, ok := strings.CutPrefix(line, "  --")
				name, help, _ := strings.Cut(strings.TrimSpace(name), " ")
				if !ok || name == "help-all" {
					continue
				}
				if _, known := config.Find(config.Honours(c), name); !known || help == "" {
					t.Errorf("no option of the command, or without a text: %s", line)
				}
			}
			_, examples, _ := strings.Cut(short, "Examples:\n")
			examples, _, _ = strings.Cut(strings.ReplaceAll(examples, " \\\n", ""), "\n\n")
			for line := range strings.Lines(examples) {
				if line = strings.ReplaceAll(line, "'", ""); strings.HasPrefix(line, "  #") {
					continue
				}
				if _, err := guide.Arrange(app.Commands, strings.Fields(line)); err != nil || !strings.HasPrefix(line, "  "+path) {
					t.Errorf("%s: %v", line, err)
				}
			}
		})
	})
}
