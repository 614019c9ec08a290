// Package guide guides the users of a command line: it arranges the arguments, names what a misspelt one may mean, and writes the help of a
// command and the configuration of a node.
package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
)

// replaced are former commands, with the commands that replace them. They are named for one release.
var replaced = map[string]string{
	"rfsd evaluate": "rfsd plan",
	"rfsd estimate": "rfsd plan --only sizes",
	"rfsctl doctor": "rfsd plan --only access,versions,disks,limits",
}

// Arrange moves options that follow names before them, as in `rfsctl snapshot show NAME --repo-uri X`: the library treats everything after the first
// name as a name. An unknown command or option is an error (fault.ErrConfig) that names the nearest match.
func Arrange(commands []*cli.Command, args []string) ([]string, error) {
	if len(args) > 2 && args[1] == "help" {
		args = append(slices.Concat(args[:1], args[2:]), "--help")
	}
	all := commands
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
	if len(args) == 0 {
		return args, nil
	}
	called := strings.Join(append([]string{filepath.Base(args[0])}, args[1:at]...), " ")
	if command == nil || len(commands) > 0 {
		if at < len(args) && slices.Contains([]string{"help", "h", helpAll}, strings.TrimLeft(args[at], "-")) { // programs and groups have one help
			if at+1 < len(args) {
				return Arrange(all, append(slices.Concat(args[:at], args[at+1:]), "--help"))
			}
			return args[:at], nil
		}
		if at == len(args) || slices.Contains([]string{"version", "v"}, strings.TrimLeft(args[at], "-")) {
			return args, nil
		}
		if strings.HasPrefix(args[at], "-") {
			return nil, config.Usage("%s: options follow the command; see %s --help", strings.SplitN(args[at], "=", 2)[0], called)
		}
		if now := replaced[called+" "+args[at]]; now != "" {
			return nil, config.Usage("%s %s is now part of `%s`", called, args[at], now)
		}
		var names []string
		for _, c := range commands {
			names = append(names, c.Name)
		}
		return nil, config.Usage("%s has no command %s%s", called, args[at], config.Suggest(args[at], names, "; see "+called+" --help"))
	}
	var options, names []string
	settings := config.Honours(command)
	for rest := args[at:]; len(rest) > 0; rest = rest[1:] {
		arg := rest[0]
		if arg == "--" {
			names = append(names, rest...)
			break
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || arg == "-" || command.ArgsUsage != "" && negative.MatchString(arg) {
			names = append(names, arg)
			continue
		}
		options = append(options, arg)
		takes, known := takesValue(settings, name)
		if !known {
			return nil, unknown(all, settings, called, name, arg)
		}
		if takes && !hasValue {
			if len(rest) < 2 {
				return nil, config.Usage("--%s is given without its value", name)
			}
			rest = rest[1:]
			options = append(options, rest[0])
		}
	}
	if slices.ContainsFunc(names, negative.MatchString) && !slices.Contains(names, "--") {
		names = append([]string{"--"}, names...)
	}
	full := slices.Contains(options, "--"+helpAll)
	if full {
		options = []string{"--help"}
	}
	if full || slices.ContainsFunc(options, func(o string) bool { return slices.Contains([]string{"--help", "-help", "-h", "--h"}, o) }) {
		setHelp(command, called, full)
	}
	return slices.Concat(args[:at], options, names), nil
}

// AsksJSON reports whether a command line that may be wrong asks for JSON.
func AsksJSON(args []string) bool {
	asks := os.Getenv(config.Variable("output")) == config.JSON
	for i, arg := range args {
		name, text, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "output" || !strings.HasPrefix(arg, "-") {
			continue
		}
		asks = inline && text == config.JSON || !inline && i+1 < len(args) && args[i+1] == config.JSON
	}
	return asks
}

// negative is the form of a negative number: an argument, not an option.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// unknown returns the error about an option that a command does not have, as it was typed.
func unknown(all []*cli.Command, settings []config.Setting, called, name, typed string) error {
	typed, _, _ = strings.Cut(typed, "=")
	var names []string
	for _, s := range settings {
		if !s.Hidden {
			names = append(names, s.Name)
		}
	}
	if others := having(all, "", name); len(others) > 0 {
		return config.Usage("%s has no option %s: it belongs to %s; see %s --help", called, typed, strings.Join(others, ", "), called)
	}
	if _, logs := config.Named(config.Settings(struct{ Log config.Log }{}), name); logs {
		return config.Usage("%s has no option %s: it logs nothing; the commands of rfsd that work on documents log, and have it", called, typed)
	}
	return config.Usage("%s has no option %s%s", called, typed, config.Suggest(name, names, "; see "+called+" --help"))
}

// having returns the commands that have an option.
func having(all []*cli.Command, prefix, name string) (others []string) {
	for _, c := range all {
		if _, known := config.Named(config.Honours(c), name); known {
			others = append(others, prefix+c.Name)
		}
		others = append(others, having(c.Subcommands, prefix+c.Name+" ", name)...)
	}
	return others
}

// takesValue reports whether an option is followed by a value.
func takesValue(settings []config.Setting, name string) (takes, known bool) {
	if name == "help" || name == "h" || name == helpAll {
		return false, true
	}
	s, known := config.Named(settings, name)
	return known && s.Kind != config.Bool, known
}
