package config

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Call is one use of a command: its arguments, before any value is decoded.
type Call struct {
	Name        string    // of the program and the command
	Settings    []Setting // of the command
	Line        Values    // options of the command line
	Environment Values    // RFS_ variables
	Args        []string
	Out         *output.Writer
	Err         io.Writer
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

// With returns the command line with more options, as a shell reads it. Secrets are masked.
func (c *Call) With(more ...string) string {
	var words []string
	for _, s := range c.Settings {
		for _, text := range c.Line[s.Name] {
			switch {
			case s.Kind == Bool:
				words = append(words, "--"+s.Name+"="+text)
				continue
			case secret.In(s.Name, text):
				text = secret.Mask
			}
			words = append(words, "--"+s.Name, text)
		}
	}
	line := c.Name
	for _, word := range append(words, more...) {
		if word == "" || strings.IndexFunc(word, shellReads) >= 0 {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line += " " + word
	}
	return line
}

// shellReads reports whether a character may mean something to a shell.
func shellReads(r rune) bool {
	return !strings.ContainsRune("-_./:=@,+%", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// Exposed returns the settings of the command line with a secret in them, which every user of the machine sees.
func (c *Call) Exposed() (names []string) {
	for _, s := range c.Settings {
		if slices.ContainsFunc(c.Line[s.Name], func(text string) bool { return secret.In(s.Name, text) }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Command completes a command with the flags of O, a struct of groups. When it runs, run gets O decoded and checked.
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
	call := &Call{Line: Values{}, Environment: Values{}, Memory: budget.New(memoryOfCommand, memoryOfAnswers)}
	settings := sync.OnceValue(func() []Setting { return Settings(o) })
	command.Flags = []cli.Flag{options{settings, call.Line}}
	command.OnUsageError = UsageError
	command.Action = func(c *cli.Context) error {
		out, ok := c.App.Writer.(*output.Writer)
		if !ok {
			out = output.New(c.App.Writer)
		}
		call.Settings, call.Name, call.Args, call.Out, call.Err = settings(), c.Command.HelpName, c.Args().Slice(), out, c.App.ErrWriter
		text, ok := call.Line["output"]
		if !ok {
			text = []string{os.Getenv(Variable("output"))}
		}
		_, takes := Find(call.Settings, "output")
		out.Start(call.Name, takes && slices.Equal(text, []string{JSON}))
		if command.ArgsUsage == "" && len(call.Args) > 0 {
			return Usage("unexpected argument %q: every option starts with --", call.Args[0])
		}
		if err := call.environment(os.LookupEnv); err != nil {
			return err
		}
		for name, texts := range call.Line {
			s, _ := Find(call.Settings, name)
			if s.offLine {
				return Usage("--%[1]s: a command line is visible to other users of this machine: use --%[1]s-file or %[2]s", name, s.Variable())
			}
			if err := s.Valid(texts); err != nil {
				return err
			}
		}
		return run(c.Context, call)
	}
	return &command
}

// UsageError keeps the library from printing wrong values, which may be secrets, as they are.
func UsageError(_ *cli.Context, err error, _ bool) error { return fmt.Errorf("%w (see --help)", err) }

// environment reads the variables of the settings. An empty one is not given.
func (c *Call) environment(lookup func(string) (string, bool)) error {
	clear(c.Environment)
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

// options are the settings of a command as one flag of the library. They are declared when a command line of the command is parsed, or
// its help is written, so that a program starts without declaring the options of its other commands.
type options struct {
	settings func() []Setting
	given    Values // of the command line
}

// Apply adds the options to a set of flags that are going to be parsed: what an earlier command line gave is forgotten.
func (o options) Apply(set *flag.FlagSet) error {
	clear(o.given)
	for _, s := range o.settings() {
		for _, name := range s.names() {
			set.Var(value{s, o.given}, name, s.Help)
		}
	}
	return nil
}

// Names returns nothing: the library copies values between the names of a flag, and these are different options.
func (o options) Names() []string { return nil }

func (o options) IsSet() bool { return false }

func (o options) String() string { return "" }

// names returns the names of the option, its letter included.
func (s Setting) names() []string {
	if s.Alias != "" {
		return []string{s.Name, s.Alias}
	}
	return []string{s.Name}
}

// Usage returns the help with the bounds of a number.
func (s Setting) Usage() string {
	if bounds := s.bounds(); bounds != "" && !strings.Contains(s.Help, s.max) {
		return s.Help + ", " + bounds
	}
	return s.Help
}

// value is an option as the standard library sets it.
type value struct {
	Setting
	given Values
}

func (v value) String() string { return v.given.Text(v.Name) }

func (v value) IsBoolFlag() bool { return v.Kind == Bool }

// Set keeps the text; Decode reads it.
func (v value) Set(text string) error {
	texts := v.split(text)
	if v.Kind == List {
		texts = slices.Concat(v.given[v.Name], texts)
	}
	v.given[v.Name] = texts
	return nil
}

// Honours returns the settings of a command that Command made.
func Honours(c *cli.Command) []Setting {
	for _, f := range c.Flags {
		if o, ok := f.(options); ok {
			return slices.Clone(o.settings())
		}
	}
	return nil
}

// Named returns the setting that an option of the command line means, by its name or its letter.
func Named(all []Setting, name string) (Setting, bool) {
	i := slices.IndexFunc(all, func(s Setting) bool { return slices.Contains(s.names(), name) })
	if i < 0 {
		return Setting{}, false
	}
	return all[i], true
}

// Same reports whether two settings of the same name are declared alike.
func (s Setting) Same(o Setting) bool {
	s.index, o.index = nil, nil
	return reflect.DeepEqual(s, o)
}

// Versions is the result of the command version.
type Versions struct {
	Program string `json:"program"`
	Version string `json:"version"`
}

// Version returns the command that prints the version of a program.
func Version(program, version string) *cli.Command {
	return Raw[Printed](cli.Command{Name: "version", Usage: "print the version"}, func(_ context.Context, call *Call) error {
		_, err := fmt.Fprintln(call.Out, program, version)
		return errors.Join(err, call.Out.Result(Versions{program, version}))
	})
}
