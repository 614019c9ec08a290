package guide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/guide"
)

func TestArrange(t *testing.T) {
	commands := []*cli.Command{
		{Name: "items", Subcommands: []*cli.Command{config.Raw[struct {
			Host   string `flag:"target-host"`
			All    bool   `flag:"all"`
			Output string `flag:"output" alias:"o"`
		}](cli.Command{Name: "show"}, nil)}},
		config.Raw[struct {
			Index string `flag:"index"`
		}](cli.Command{Name: "list"}, nil),
	}
	for _, c := range []struct{ name, args, want, fails string }{
		{"behind a name", "rfsctl items show ID --target-host http://x", "rfsctl items show --target-host http://x ID", ""},
		{"with = and an alias", "rfsctl items show ID --target-host=http://x -o json", "rfsctl items show --target-host=http://x -o json ID", ""},
		{"a switch takes no value", "rfsctl items show --all ID --target-host http://x", "rfsctl items show --all --target-host http://x ID", ""},
		{"before names nothing changes", "rfsctl items show --target-host http://x ID", "rfsctl items show --target-host http://x ID", ""},
		{"behind -- everything is a name", "rfsctl items show -- --all", "rfsctl items show -- --all", ""},
		{"a group without a command", "rfsctl items", "rfsctl items", ""},
		{"an option in the place of a command", "rfsctl --all=secret items show", "", "--all: options follow the command; see rfsctl --help"},
		{"the whole help", "rfsctl items --help-all", "rfsctl items", ""},
		{"the version", "rfsctl -v", "rfsctl -v", ""},
		{"no command", "rfsctl", "rfsctl", ""},
		{"a misspelt command", "rfsctl itmes list", "", "rfsctl has no command itmes; did you mean items?"},
		{"a misspelt command of a group", "rfsctl items shwo ID", "", "rfsctl items has no command shwo; did you mean show?"},
		{"help of a group", "rfsctl items help", "rfsctl items", ""},
		{"help of a command", "rfsctl items help show", "rfsctl items show --help", ""},
		{"misspelt", "/usr/bin/rfsctl items show ID --target-hots x", "", "rfsctl items show has no option --target-hots; did you mean target-host?"},
		{"of another command", "rfsctl items show ID --index x", "", "rfsctl items show has no option --index: it belongs to list; see rfsctl items show --help"},
		{"like nothing", "rfsctl items show --zzzzzz", "", "rfsctl items show has no option --zzzzzz; see rfsctl items show --help"},
		{"of what logs", "rfsctl items show ID -v", "", "rfsctl items show has no option -v: it logs nothing; the commands of rfsd"},
		{"without its value", "rfsctl items show --target-host", "", "--target-host is given without its value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := guide.Arrange(commands, strings.Fields(c.args))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %s", err, c.fails)
				}
				return
			}
			if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
