package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/config"
	"github.com/rfsd/rfsd/rfs/secret"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const (
	node   = "The node"
	events = "Events"
)

// sectionNames give each category of flags its section in the configuration file.
var sectionNames = map[string]string{
	source: "source", originFlagsCategory: "source-cluster", targetFlags: "target", output: "export", selection: "selection", work: "work", coordination: "coordination",
	node: "daemon", events: "events", apiCategory: "api", fleetCategory: "fleet", careCategory: "care",
	importSource: "import", importWork: "import",
}

// notInFile are flags that are no settings of a node: its slots are its workers.
var notInFile = []string{"config", "slots", "output", rulesText, "share-settings"}

// sections are the configuration file's, made of the flags: what is a flag is a key.
func sections(flags []cli.Flag) []config.Section {
	var all []config.Section
	for _, f := range flags {
		name := f.Names()[0]
		categorized, ok := f.(cli.CategorizableFlag)
		if !ok || slices.Contains(notInFile, name) {
			continue
		}
		section, ok := sectionNames[categorized.GetCategory()]
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(s config.Section) bool { return s.Name == section })
		if i < 0 {
			i = len(all)
			all = append(all, config.Section{Name: section})
		}
		all[i].Keys = append(all[i].Keys, config.Key{Name: name, Kind: kindOf(f), Usage: usageOf(f), Secret: secret.Option(name)})
	}
	return all
}

func kindOf(f cli.Flag) config.Kind {
	switch f.(type) {
	case *cli.IntFlag:
		return config.Number
	case *cli.BoolFlag:
		return config.Bool
	case *cli.StringSliceFlag:
		return config.List
	}
	return config.Text
}

func usageOf(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok {
		return d.GetUsage()
	}
	return ""
}

// readSettings puts the file's values under those of environment and command line, and refuses
// secrets on the command line, where everybody on the machine sees them.
func readSettings(c *cli.Context, flags []cli.Flag, file string) error {
	for _, name := range secret.Arguments(os.Args[1:]) {
		return usage("--%s holds a secret, which would be visible to other users of this machine: %s", name, secretWay(name))
	}
	if file == "" {
		return nil
	}
	values, err := config.Load(file, sections(flags))
	if err != nil {
		return err
	}
	for name, v := range values {
		if c.IsSet(name) {
			continue
		}
		if err := setOption(c, name, v); err != nil {
			return fmt.Errorf("configuration %s: %w", file, err)
		}
	}
	return nil
}

// secretWay names how the secret of an option is given unseen.
func secretWay(name string) string {
	if which, ok := strings.CutSuffix(name, "-host"); ok {
		return "use --" + which + "-username with --" + which + "-password-file or " + env(which + "-password")[0]
	}
	if strings.HasSuffix(name, "-password") {
		return "use --" + name + "-file or " + env(name)[0]
	}
	return "use " + env(name)[0]
}

// loadSettings reads the file alone.
func loadSettings(file string) (config.Values, error) { return config.Load(file, sections(runFlags())) }

// effective are the settings that anybody gave, by file, environment or command line.
func effective(c *cli.Context, flags []cli.Flag) config.Values {
	values := config.Values{}
	for _, f := range flags {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		switch kindOf(f) {
		case config.List:
			values[name] = c.StringSlice(name)
		default:
			values[name] = []string{fmt.Sprint(c.Value(name))}
		}
	}
	return values
}

func configCommand() *cli.Command {
	flags := runFlags()
	return &cli.Command{
		Name: "config", Usage: "look at a configuration file",
		Subcommands: []*cli.Command{{
			Name: "check", Usage: "check a configuration file with environment and flags over it, and print what is in force; secrets are not shown",
			ArgsUsage: "FILE", Flags: flags,
			Action: func(c *cli.Context) error {
				if c.Args().Len() != 1 {
					return usage("config check takes one file")
				}
				if err := readSettings(c, flags, c.Args().First()); err != nil {
					return err
				}
				if _, err := parseRun(c); err != nil {
					return err
				}
				return config.Write(terminal.NewWriter(os.Stdout), sections(flags), effective(c, flags))
			},
		}},
	}
}
