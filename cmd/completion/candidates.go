package completion

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
)

// timeout bounds the time for which values are read.
const timeout = 1500 * time.Millisecond

// Asked returns the words of a line that is completed, the program first, and whether one is.
func Asked(args []string) (words []string, ok bool) {
	last := len(args) - 1
	if last < 1 || args[last] != Option {
		return nil, false
	}
	return args[:last], true
}

// Write writes the candidates for the last word of a line, one in each line; nothing where the word may be a file, or where none is known.
func Write(ctx context.Context, w io.Writer, commands []*cli.Command, words []string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, c := range Candidates(ctx, commands, words) {
		fmt.Fprintln(w, c)
	}
}

// Candidates returns the words that may replace the last word of a line, which is their beginning.
func Candidates(ctx context.Context, commands []*cli.Command, words []string) []string {
	if len(words) < 2 {
		return nil
	}
	before, at := words[1:len(words)-1], words[len(words)-1]
	var command *cli.Command
	for len(before) > 0 && len(commands) > 0 {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(before[0]) })
		if i < 0 {
			return nil
		}
		command, commands, before = commands[i], commands[i].Subcommands, before[1:]
	}
	if command == nil || len(commands) > 0 {
		var names []string
		for _, c := range commands {
			if !c.Hidden {
				names = append(names, c.Name)
			}
		}
		return starting(names, at)
	}
	settings := config.Honours(command)
	if len(before) > 0 {
		if s, ok := option(settings, before[len(before)-1]); ok && s.Kind != config.Bool {
			return starting(values(ctx, settings, s, before[:len(before)-1]), at)
		}
	}
	if name, value, ok := strings.Cut(at, "="); ok {
		s, known := option(settings, name)
		if !known {
			return nil
		}
		return starting(values(ctx, settings, s, before), value)
	}
	if !strings.HasPrefix(at, "-") {
		if command.ArgsUsage == shells && len(before) == 0 {
			return starting(strings.Split(shells, "|"), at)
		}
		if at != "" || command.ArgsUsage != "" {
			return nil
		}
	}
	return starting(options(settings, before), at)
}

// options returns the options that may follow: a list more than once.
func options(settings []config.Setting, before []string) []string {
	names := []string{"--help", "--help-all"}
	for _, s := range settings {
		name := "--" + s.Name
		given := slices.ContainsFunc(before, func(word string) bool { return word == name || strings.HasPrefix(word, name+"=") })
		if !s.Hidden && (!given || s.Kind == config.List) {
			names = append(names, name)
		}
	}
	return names
}

// option returns the setting of a word that is the name of an option.
func option(settings []config.Setting, word string) (config.Setting, bool) {
	if name := strings.TrimLeft(word, "-"); name != word {
		return config.Named(settings, name)
	}
	return config.Setting{}, false
}

// given returns the values of the line, over the values of the environment, over the values of a configuration file.
func given(settings []config.Setting, before []string) config.Values {
	all := config.Values{}
	for i := 0; i < len(before); i++ {
		name, value, inline := strings.Cut(before[i], "=")
		s, ok := option(settings, name)
		if !ok {
			continue
		}
		if !inline && s.Kind != config.Bool {
			if i++; i == len(before) {
				break
			}
			value = before[i]
		}
		if rest, ok := strings.CutPrefix(value, "~/"); ok { // a shell replaces it later
			if home, err := os.UserHomeDir(); err == nil {
				value = home + "/" + rest
			}
		}
		all[s.Name] = []string{value}
	}
	environment := config.Values{}
	for _, s := range settings {
		if text := os.Getenv(s.Variable()); s.Variable() != "" && text != "" {
			environment[s.Name] = []string{text}
		}
	}
	all = all.Over(environment)
	if file := all.Text("config"); file != "" {
		if lower, err := config.Load(file, config.Settings(config.Checked{})); err == nil {
			all = all.Over(lower)
		}
	}
	return all
}

func starting(all []string, with string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, with) })
}
