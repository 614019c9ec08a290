// Package cli runs the command line of a program: a tree of commands (Command), each with options (Option). Options may
// stand before or behind arguments, as in `rfsctl items show ID --target-host X`. It prints help and completes words of a
// shell. The library that it replaces renders help with text/template, which makes the linker keep every exported method
// of every type: 8 MB of each program.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/fault"
)

// App is a program.
type App struct {
	Name, Usage, Version string
	Commands             []*Command
	Out, Err             io.Writer
}

// Command is a command that runs an action, or a group of commands.
type Command struct {
	Name, Usage string
	ArgsUsage   string // of the arguments; "": it takes none
	Description string // lines but the first begin with a margin of three blanks
	Hidden      bool
	Options     []Option
	Subcommands []*Command
	Action      func(ctx context.Context, call *Call) error
}

// Call is one use of a command. Its options have been set.
type Call struct {
	Args     []string
	Out, Err io.Writer
}

// Option is an option of a command.
type Option interface {
	Describe() Description
	Set(text string) // "true" for a switch without a value
}

// Description is what help, completion and parser have to know of an option.
type Description struct {
	Name     string
	Alias    string // one letter, or ""
	Group    string // heading of the help
	Usage    string
	Default  string
	Variable string // of the environment, or ""
	Switch   bool   // it needs no value
	Several  bool   // it can be given more than once
	Hidden   bool
}

// Run executes a command line, whose first word is the program. A group without a further word prints its help. Errors of the
// command line are fault.ErrConfig.
func (a *App) Run(ctx context.Context, args []string) error {
	words := args[min(1, len(args)):]
	if n := len(words); n > 0 && words[n-1] == complete {
		a.complete(words[:n-1])
		return nil
	}
	at := position{app: a, command: a.root(), path: a.Name}
	help := false
	for len(words) > 0 && len(at.command.Subcommands) > 0 {
		switch word := words[0]; {
		case word == "help", isHelp(word):
			help = true
		case at.command.Name == a.Name && (word == "--version" || word == "-v"):
			fmt.Fprintf(a.Out, "%s version %s\n", a.Name, a.Version)
			return nil
		case strings.HasPrefix(word, "-"):
			return at.unknown(optionName(word))
		case !at.enter(word):
			return fmt.Errorf("%s has no command %q%s: %w", at.path, word,
				Suggest(word, at.command.visible(), ": there are "+strings.Join(at.command.visible(), ", ")), fault.ErrConfig)
		}
		words = words[1:]
	}
	if help || len(at.command.Subcommands) > 0 {
		at.help(a.Out)
		return nil
	}
	names, help, err := at.parse(words)
	switch {
	case err != nil:
		return err
	case help:
		at.help(a.Out)
		return nil
	case at.command.ArgsUsage == "" && len(names) > 0:
		return fmt.Errorf("unexpected argument %q: every option begins with --: %w", names[0], fault.ErrConfig)
	}
	return at.command.Action(ctx, &Call{names, a.Out, a.Err})
}

// root is the program as a group of its commands.
func (a *App) root() *Command { return &Command{Name: a.Name, Usage: a.Usage, Subcommands: a.Commands} }

// position is a command with the words that lead to it.
type position struct {
	app     *App
	command *Command
	path    string
}

// enter goes on to the command of a name; it reports whether there is one.
func (p *position) enter(name string) bool {
	i := slices.IndexFunc(p.command.Subcommands, func(c *Command) bool { return c.Name == name })
	if i < 0 {
		return false
	}
	p.command, p.path = p.command.Subcommands[i], p.path+" "+name
	return true
}

// parse sets the options among words and returns the other words. Everything behind -- is such a word.
func (p *position) parse(words []string) (names []string, help bool, err error) {
	for ; len(words) > 0; words = words[1:] {
		word := words[0]
		if word == "--" {
			return append(names, words[1:]...), help, nil
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			names = append(names, word)
			continue
		}
		if isHelp(word) {
			help = true
			continue
		}
		option := p.command.option(optionName(word))
		if option == nil {
			return nil, false, p.unknown(optionName(word))
		}
		_, text, hasText := strings.Cut(word, "=")
		switch {
		case hasText:
		case option.Describe().Switch:
			text = "true"
		case len(words) < 2:
			return nil, false, fmt.Errorf("--%s is given without its value: %w", option.Describe().Name, fault.ErrConfig)
		default:
			words = words[1:]
			text = words[0]
		}
		option.Set(text)
	}
	return names, help, nil
}

func isHelp(word string) bool { return word == "--help" || word == "-help" || word == "-h" }

// optionName returns the name in a word such as --name or --name=text.
func optionName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// option returns the option of a name or alias, nil for none.
func (c *Command) option(name string) Option {
	for _, o := range c.Options {
		if d := o.Describe(); d.Name == name || d.Alias != "" && d.Alias == name {
			return o
		}
	}
	return nil
}

// visible returns the names of the commands that the help shows.
func (c *Command) visible() (names []string) {
	for _, sub := range c.Subcommands {
		if !sub.Hidden {
			names = append(names, sub.Name)
		}
	}
	return names
}

// unknown returns the error about an option that a command does not have: it names the commands that have it, or the nearest option.
func (p *position) unknown(name string) error {
	if others := having(p.app.Commands, "", name); len(others) > 0 {
		return fmt.Errorf("%s has no option --%s, which is one of %s: %w", p.path, name, strings.Join(others, ", "), fault.ErrConfig)
	}
	var names []string
	for _, o := range p.command.Options {
		if d := o.Describe(); !d.Hidden {
			names = append(names, d.Name)
		}
	}
	return fmt.Errorf("%s has no option --%s%s: %w", p.path, name, Suggest(name, names, "; see "+p.path+" --help"), fault.ErrConfig)
}

// having returns the commands that have an option.
func having(all []*Command, prefix, name string) (others []string) {
	for _, c := range all {
		if c.option(name) != nil && !c.Hidden {
			others = append(others, prefix+c.Name)
		}
		others = append(others, having(c.Subcommands, prefix+c.Name+" ", name)...)
	}
	return others
}
