package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestOptionsMayStandBehindNames(t *testing.T) {
	commands := []*cli.Command{{Name: "items", Subcommands: []*cli.Command{{Name: "show", Flags: []cli.Flag{
		&cli.StringFlag{Name: "target-host"}, &cli.BoolFlag{Name: "all"}, &cli.StringFlag{Name: "output", Aliases: []string{"o"}},
	}}}}}
	for _, c := range []struct{ name, args, want string }{
		{"behind a name", "rfsctl items show ID --target-host http://x", "rfsctl items show --target-host http://x ID"},
		{"with = and an alias", "rfsctl items show ID --target-host=http://x -o json", "rfsctl items show --target-host=http://x -o json ID"},
		{"a switch takes no value", "rfsctl items show --all ID --target-host http://x", "rfsctl items show --all --target-host http://x ID"},
		{"before names nothing changes", "rfsctl items show --target-host http://x ID", "rfsctl items show --target-host http://x ID"},
		{"what is unknown stays", "rfsctl items show ID --nothing x", "rfsctl items show ID --nothing x"},
		{"behind -- everything is a name", "rfsctl items show -- --all", "rfsctl items show -- --all"},
		{"a group without a command", "rfsctl items --all", "rfsctl items --all"},
		{"no command", "rfsctl", "rfsctl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := optionsFirst(commands, strings.Fields(c.args)); !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("%q", got)
			}
		})
	}
	if code, _, stderr := rfsctl(t, "snapshot", "show", "snap1", "--repo-uri", "/nowhere"); code == 0 || strings.Contains(stderr, "repo-uri") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
