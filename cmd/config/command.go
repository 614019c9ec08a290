package config

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/cmd/cli"
	"github.com/rfsd/rfsd/rfs/budget"
	"github.com/rfsd/rfsd/rfs/secret"
)

// Call is one use of a command: what was given, before anything is read from it.
type Call struct {
	Settings    []Setting // of the command
	Line        Values    // options of the command line
	Environment Values    // RFS_ variables
	Args        []string
	Out, Err    io.Writer
	// Memory is for what others wrote: large blobs of a repository, long answers. Commands that move documents have a larger
	// one, by their options.
	Memory *budget.Budget
}

// What Call.Memory is, in bytes, and the part of it that only answers take.
const (
	memoryOfCommand = 256 << 20
	memoryOfAnswers = 64 << 20
)

// Given returns what the command line and, below it, the environment give.
func (c *Call) Given() Values { return c.Line.Over(c.Environment) }

// Exposed returns the settings of the command line with a secret in them, which every user of the machine sees.
func (c *Call) Exposed() (names []string) {
	for _, s := range c.Settings {
		if slices.ContainsFunc(c.Line[s.Name], func(text string) bool { return secret.In(s.Name, text) }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Command completes a command with the options of O, a struct of groups. When it runs, run gets O decoded and checked.
func Command[O any](command cli.Command, run func(ctx context.Context, call *Call, o O) error) *cli.Command {
	return Raw[O](command, func(ctx context.Context, call *Call) error {
		var o O
		if err := Decode(call.Given(), &o); err != nil {
			return err
		}
		return run(ctx, call, o)
	})
}

// Raw is a Command whose run decodes, after it has read settings from further places.
func Raw[O any](command cli.Command, run func(ctx context.Context, call *Call) error) *cli.Command {
	var o O
	call := &Call{Settings: Settings(o), Line: Values{}, Environment: Values{}, Memory: budget.New(memoryOfCommand, memoryOfAnswers)}
	for _, s := range call.Settings {
		command.Options = append(command.Options, &option{s, call.Line})
	}
	command.Action = func(ctx context.Context, c *cli.Call) error {
		call.Args, call.Out, call.Err = c.Args, c.Out, c.Err
		if err := call.environment(os.LookupEnv); err != nil {
			return err
		}
		for name, texts := range call.Line {
			s, _ := Find(call.Settings, name)
			if err := s.Valid(texts); err != nil {
				return err
			}
		}
		return run(ctx, call)
	}
	return &command
}

// environment reads the variables of the settings. An empty one is not given.
func (c *Call) environment(lookup func(string) (string, bool)) error {
	for _, s := range c.Settings {
		name := s.Variable()
		text, ok := lookup(name)
		if name == "" || !ok || text == "" {
			continue
		}
		texts := s.split(text)
		if _, given := c.Line[s.Name]; given {
			continue
		}
		if err := s.Valid(texts); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.Environment[s.Name] = texts
	}
	return nil
}

// split divides the text of a list at its commas, as flags and variables give it.
func (s Setting) split(text string) []string {
	if b, err := strconv.ParseBool(text); s.Kind == Bool && err == nil {
		return []string{strconv.FormatBool(b)}
	}
	if s.Kind != List {
		return []string{text}
	}
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// option is a setting as an option of a command. Its values go to those of the command line.
type option struct {
	Setting
	given Values
}

// Describe returns what parser, help and completion have to know.
func (o *option) Describe() cli.Description {
	return cli.Description{
		Name: o.Name, Alias: o.Alias, Group: o.Group, Usage: o.Usage(), Default: o.Default, Variable: o.Variable(),
		Switch: o.Kind == Bool, Several: o.Kind == List, Hidden: o.Hidden,
	}
}

// Set keeps the text; Decode reads it.
func (o *option) Set(text string) {
	texts := o.split(text)
	if o.Kind == List {
		texts = slices.Concat(o.given[o.Name], texts)
	}
	o.given[o.Name] = texts
}

// Usage returns the help with the bounds of a number.
func (s Setting) Usage() string {
	if bounds := s.bounds(); bounds != "" && !strings.Contains(s.Help, s.max) {
		return s.Help + ", " + bounds
	}
	return s.Help
}

// Honours returns the settings of a command that Command made.
func Honours(c *cli.Command) (all []Setting) {
	for _, x := range c.Options {
		if o, ok := x.(*option); ok {
			all = append(all, o.Setting)
		}
	}
	return all
}

// Same reports whether two settings of the same name are declared alike.
func (s Setting) Same(o Setting) bool {
	s.index, o.index = nil, nil
	return reflect.DeepEqual(s, o)
}
