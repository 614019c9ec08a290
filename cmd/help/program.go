package help

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// SetProgram sets the help of a program, and of its commands that have commands: a list of the commands.
func SetProgram(app *cli.App) {
	width := Width()
	app.CustomAppHelpTemplate = Template(list(app.Name, app.Usage, "", app.Commands, width))
	for _, c := range app.Commands {
		if len(c.Subcommands) == 0 {
			continue
		}
		text := list(app.Name+" "+c.Name, c.Usage, c.Description, c.Subcommands, width)
		c.Action = func(c *cli.Context) error {
			_, err := fmt.Fprint(c.App.Writer, text)
			return err
		}
	}
}

// list returns the help of a program, or of a command that has commands.
func list(called, usage, about string, commands []*cli.Command, width int) string {
	var b strings.Builder
	b.WriteString(Wrapped(called+" - "+usage, width, "\n    ") + "\n\n")
	fmt.Fprintf(&b, "Usage: %s COMMAND [options]\n", called)
	if about = strings.TrimSpace(about); about != "" {
		b.WriteString("\n" + about + "\n")
	}
	b.WriteString("\nCommands:\n")
	var names, texts []string
	for _, c := range commands {
		if !c.Hidden {
			names, texts = append(names, c.Name), append(texts, c.Usage)
		}
	}
	WriteOptions(&b, names, texts, width)
	fmt.Fprintf(&b, "\n%s\n", Wrapped(called+" COMMAND --help shows what a command does and its most frequent options, --help-all all of its options.", width, "\n"))
	return b.String()
}

// Template returns the template from which the library makes the text.
func Template(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }
