package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/fault"
)

// given is an option that notes what it was set to.
type given struct {
	Description
	texts *[]string
}

func (g given) Describe() Description { return g.Description }
func (g given) Set(text string)       { *g.texts = append(*g.texts, g.Name+"="+text) }

// program returns an app and what its actions note: the options in their order, then the arguments.
func program() (*App, *bytes.Buffer, *[]string) {
	var out bytes.Buffer
	var noted []string
	act := func(_ context.Context, c *Call) error {
		noted = append(noted, c.Args...)
		return nil
	}
	option := func(d Description) Option { return given{d, &noted} }
	return &App{Name: "sample", Usage: "show things", Version: "v1", Out: &out, Err: &out, Commands: []*Command{
		{Name: "items", Usage: "look at items", Subcommands: []*Command{{
			Name: "show", Usage: "show an item", ArgsUsage: "ID...", Action: act,
			Description: "Shows items.\n   All of them:\n\n     $ sample items show",
			Options: []Option{
				option(Description{Name: "target-host", Group: "Target", Usage: "URL", Variable: "RFS_TARGET_HOST"}),
				option(Description{Name: "target-port", Group: "Target", Usage: "port", Default: "9200"}),
				option(Description{Name: "all", Group: "Output", Usage: "all of them", Switch: true}),
				option(Description{Name: "output", Alias: "o", Group: "Output", Usage: "text or json", Default: "text"}),
				option(Description{Name: "secret-way", Group: "Output", Hidden: true}),
			},
		}}},
		{Name: "list", Usage: "list things", Action: act, Options: []Option{option(Description{Name: "index", Usage: "patterns", Several: true})}},
		{Name: "inner", Usage: "for programs", Hidden: true, Action: act, Options: []Option{option(Description{Name: "inside"})}},
	}}, &out, &noted
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ name, args, want, fails string }{
		{"options behind an argument", "items show ID --target-host http://x", "target-host=http://x ID", ""},
		{"with = and an alias", "items show ID --target-host=http://x -o json", "target-host=http://x output=json ID", ""},
		{"a switch takes no value", "items show --all ID --target-host http://x", "all=true target-host=http://x ID", ""},
		{"a switch that is switched off", "items show --all=false ID", "all=false ID", ""},
		{"an empty value", "items show --output= ID", "output= ID", ""},
		{"one dash", "items show -target-host x ID", "target-host=x ID", ""},
		{"a value that begins with a dash", "items show --target-host -1 ID", "target-host=-1 ID", ""},
		{"a dash alone is an argument", "items show -", "-", ""},
		{"behind -- everything is an argument", "items show a -- --all b", "a --all b", ""},
		{"more than once", "list --index a --index b", "index=a index=b", ""},
		{"misspelt", "items show ID --target-hots x", "", "sample items show has no option --target-hots; did you mean target-host?"},
		{"of another command", "items show ID --index x", "", "sample items show has no option --index, which is one of list"},
		{"of a hidden command", "items show ID --inside x", "", "sample items show has no option --inside; see sample items show --help"},
		{"like nothing", "items show --zzzzzz", "", "sample items show has no option --zzzzzz; see sample items show --help"},
		{"without its value", "items show --target-host", "", "--target-host is given without its value"},
		{"an option of the program", "--all items show", "", "sample has no option --all, which is one of items show"},
		{"no such command", "shwo", "", `sample has no command "shwo": there are items, list`},
		{"a command that is like another", "items shwo", "", `sample items has no command "shwo"; did you mean show?`},
		{"an argument too many", "list a", "", `unexpected argument "a": every option begins with --`},
	} {
		t.Run(c.name, func(t *testing.T) {
			app, out, noted := program()
			err := app.Run(t.Context(), append([]string{"/usr/bin/sample"}, strings.Fields(c.args)...))
			if c.fails != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.HasPrefix(err.Error(), c.fails+": ") {
					t.Errorf("%v, want %s", err, c.fails)
				}
				return
			}
			if got := strings.Join(*noted, " "); err != nil || got != c.want || out.Len() > 0 {
				t.Errorf("%q, %v, %s", got, err, out)
			}
		})
	}
}

func TestErrorsOfActionsAreReturned(t *testing.T) {
	app, _, _ := program()
	want := errors.New("broken")
	app.Commands[1].Action = func(context.Context, *Call) error { return want }
	if err := app.Run(t.Context(), []string{"sample", "list"}); err != want {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	const ofShow = `NAME:
   sample items show - show an item

USAGE:
   sample items show [options] ID...

DESCRIPTION:
   Shows items.
   All of them:

     $ sample items show

OPTIONS:
   --help, -h  show help

   Output

   --all                     all of them
   --output value, -o value  text or json (default: text)

   Target

   --target-host value  URL [$RFS_TARGET_HOST]
   --target-port value  port (default: 9200)
`
	const ofItems = `NAME:
   sample items - look at items

USAGE:
   sample items command [options]

COMMANDS:
   show  show an item
   help  show the help of a command: sample items help COMMAND

OPTIONS:
   --help, -h  show help
`
	for _, c := range []struct{ args, want string }{
		{"items show --help", ofShow},
		{"items show ID --all -h", ofShow},
		{"help items show", ofShow},
		{"items help show", ofShow},
		{"items", ofItems},
		{"--help items", ofItems},
	} {
		app, out, noted := program()
		if err := app.Run(t.Context(), append([]string{"sample"}, strings.Fields(c.args)...)); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
		if strings.Contains(strings.Join(*noted, " "), "ID") {
			t.Errorf("%s: the action ran", c.args)
		}
	}
	app, out, _ := program()
	if err := app.Run(t.Context(), []string{"sample"}); err != nil || !strings.Contains(out.String(), "VERSION:\n   v1\n") || strings.Contains(out.String(), "inner") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, v := range []string{"--version", "-v"} {
		out.Reset()
		if err := app.Run(t.Context(), []string{"sample", v}); err != nil || out.String() != "sample version v1\n" {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{""}, "items list"},
		{[]string{"l"}, "list"},
		{[]string{"list"}, "list"},
		{[]string{"items", ""}, "show"},
		{[]string{"items", "show", ""}, ""},
		{[]string{"items", "show", "--"}, "--all --output --target-host --target-port --help"},
		{[]string{"items", "show", "--t"}, "--target-host --target-port"},
		{[]string{"items", "show", "--all", "--o"}, "--output"},
		{[]string{"items", "show", "--output", "-"}, ""},
		{[]string{"items", "show", "--output=json", "--a"}, "--all"},
		{nil, ""},
	} {
		app, out, noted := program()
		if err := app.Run(t.Context(), append(append([]string{"sample"}, c.words...), "--complete")); err != nil || len(*noted) > 0 {
			t.Errorf("%q: %v, %q", c.words, err, *noted)
		}
		var names []string
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(line, "\t")
			names = append(names, name)
		}
		if got := fmt.Sprint(strings.Join(names, " ")); got != c.want {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}
