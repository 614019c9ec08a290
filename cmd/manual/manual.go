// Package manual makes manual pages and completion scripts of a program from its commands and their settings, so that both
// state what the program does.
package manual

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/guide"
)

// Command returns the hidden command that writes the manual pages of a program, whose commands app returns, into a directory.
// The build of the packages uses it.
func Command(app func() *cli.App) *cli.Command {
	return config.Raw[config.None](cli.Command{
		Name: "manual", Usage: "write the manual pages as Markdown for go-md2man", ArgsUsage: "DIRECTORY", Hidden: true,
	}, func(_ context.Context, call *config.Call) error {
		if len(call.Args) != 1 {
			return config.Usage("into which directory?")
		}
		for name, page := range Pages(app()) {
			if err := os.WriteFile(filepath.Join(call.Args[0], name+".1.md"), []byte(page), 0o644); err != nil {
				return fmt.Errorf("manual: %w", err)
			}
		}
		return nil
	})
}

// Pages returns the manual pages of the program, and of each command that is not hidden, for section 1: Markdown as go-md2man
// reads it, by a name such as rfsd-config-check.
func Pages(app *cli.App) map[string]string {
	all := map[string]string{}
	addPages(all, app, &cli.Command{Name: app.Name, Usage: app.Usage, Description: app.Description, Subcommands: app.Commands}, nil)
	return all
}

// addPages adds the pages of a command and of those below it. Parents are the names above it.
func addPages(all map[string]string, app *cli.App, c *cli.Command, parents []string) {
	words := append(slices.Clone(parents), c.Name)
	all[strings.Join(words, "-")] = text(app, c, words)
	for _, sub := range c.Subcommands {
		if !sub.Hidden && sub.Name != "help" {
			addPages(all, app, sub, words)
		}
	}
}

func text(app *cli.App, c *cli.Command, words []string) string {
	var b strings.Builder
	name := strings.Join(words, "-")
	fmt.Fprintf(&b, "%% \"%s\" \"1\" \"\" \"%s %s\" \"User Commands\"\n\n", strings.ToUpper(name), app.Name, app.Version)
	fmt.Fprintf(&b, "# NAME\n\n%s - %s\n\n", name, escape(c.Usage))
	usage := strings.Join(words, " ")
	fmt.Fprintf(&b, "# SYNOPSIS\n\n**%s**", escape(usage))
	switch {
	case len(c.Subcommands) > 0:
		b.WriteString(" *command* \\[*options*]")
	case len(config.Honours(c)) > 0:
		b.WriteString(" \\[*options*]")
	}
	if c.ArgsUsage != "" {
		b.WriteString(" *" + escape(c.ArgsUsage) + "*")
	}
	b.WriteString("\n\n")
	if c.Description != "" {
		b.WriteString("# DESCRIPTION\n\n" + prose(c.Description))
	}
	var see []string
	if len(c.Subcommands) > 0 {
		b.WriteString("# COMMANDS\n\n")
		for _, sub := range c.Subcommands {
			if sub.Hidden || sub.Name == "help" {
				continue
			}
			fmt.Fprintf(&b, "**%s**\n: %s\n\n", escape(usage+" "+sub.Name), escape(sub.Usage))
			see = append(see, fmt.Sprintf("**%s**(1)", escape(name+"-"+sub.Name)))
		}
	}
	for i, e := range guide.Examples(usage) {
		if i == 0 {
			b.WriteString("# EXAMPLES\n\n")
		}
		fmt.Fprintf(&b, "%s:\n\n    %s\n\n", escape(strings.ToUpper(e.Task[:1])+e.Task[1:]), e.Line)
	}
	b.WriteString(options(config.Honours(c)))
	if len(words) > 1 {
		see = append(see, fmt.Sprintf("**%s**(1)", escape(strings.Join(words[:len(words)-1], "-"))))
	}
	fmt.Fprintf(&b, "# SEE ALSO\n\n%s\n", strings.Join(see, ", "))
	return b.String()
}

// options lists settings under the headings of their groups, in the order of the help.
func options(settings []config.Setting) string {
	groups := map[string][]config.Setting{}
	for _, s := range settings {
		if !s.Hidden {
			groups[s.Group] = append(groups[s.Group], s)
		}
	}
	if len(groups) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# OPTIONS\n\nAn option can also be given by its variable; the command line wins.\n\n")
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	guide.SortGroups(names)
	for _, name := range names {
		if name != "" {
			fmt.Fprintf(&b, "## %s\n\n", escape(name))
		}
		for _, s := range groups[name] {
			b.WriteString(option(s))
		}
	}
	return b.String()
}

func option(s config.Setting) string {
	var b strings.Builder
	b.WriteString("**--" + escape(s.Name) + "**")
	if s.Kind != config.Bool {
		b.WriteString(" *value*")
	}
	if s.Alias != "" {
		b.WriteString(", **-" + escape(s.Alias) + "**")
	}
	b.WriteString("\n: " + escape(s.Usage()))
	if s.Default != "" && s.Kind != config.Bool {
		b.WriteString(" (default: " + escape(s.Default) + ")")
	}
	if v := s.Variable(); v != "" {
		b.WriteString(" \\[" + escape(v) + "]")
	}
	return b.String() + "\n\n"
}

// prose returns a description as Markdown: lines that are indented, examples and tables, stay as they are.
func prose(description string) string {
	var b strings.Builder
	code := false
	for line := range strings.SplitSeq(strings.TrimSpace(description), "\n") {
		indented := strings.HasPrefix(line, "  ")
		if line != "" && indented != code {
			b.WriteString("\n")
			code = indented
		}
		switch {
		case line == "":
			b.WriteString("\n")
		case code:
			b.WriteString("  " + line + "\n")
		default:
			b.WriteString(escape(line) + "\n")
		}
	}
	return b.String() + "\n"
}

var escapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, ">", `\>`, "[", `\[`, "~", `\~`, "|", `\|`)

// escape returns text in which nothing has a meaning for Markdown.
func escape(text string) string { return escapes.Replace(text) }
