package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// optionsFirst moves options that stand behind names before them, as in `rfsctl snapshot show NAME --repo-uri X`: the library
// takes everything behind the first name for a name. What it does not know stays where it is.
func optionsFirst(commands []*cli.Command, args []string) []string {
	at := min(1, len(args))
	var command *cli.Command
	for at < len(args) {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		command, commands = commands[i], commands[i].Subcommands
		at++
	}
	if command == nil || len(commands) > 0 {
		return args
	}
	var options, names []string
	for rest := args[at:]; len(rest) > 0; rest = rest[1:] {
		arg := rest[0]
		if arg == "--" {
			names = append(names, rest...)
			break
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			names = append(names, arg)
			continue
		}
		options = append(options, arg)
		takes, known := takesValue(command, name)
		if !known {
			return args
		}
		if takes && !hasValue && len(rest) > 1 {
			rest = rest[1:]
			options = append(options, rest[0])
		}
	}
	return slices.Concat(args[:at], options, names)
}

// takesValue reports whether an option is followed by a value.
func takesValue(c *cli.Command, name string) (takes, known bool) {
	if name == "help" || name == "h" {
		return false, true
	}
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool, true
		}
	}
	return false, false
}
