package main

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/guide"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/program"
)

// nodeSettings returns the settings of a node: from the file, over it from the environment, and over both from the command line. It
// refuses secrets on the command line, where every user of the machine sees them.
func nodeSettings(call *config.Call, file string) (config.Values, error) {
	for _, name := range call.Exposed() {
		return nil, config.Usage("--%s holds a secret, which would be visible to other users of this machine: %s", name, program.Unseen(name))
	}
	values := call.Given()
	if file == "" {
		return values, nil
	}
	lower, err := loadSettings(file)
	if err != nil {
		return nil, err
	}
	return values.Over(lower), nil
}

// loadSettings reads the file alone.
func loadSettings(file string) (config.Values, error) {
	return config.Load(file, config.Settings(config.Checked{}))
}

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "write or check a configuration file",
		Subcommands: []*cli.Command{config.Raw[config.Checked](cli.Command{
			Name: "check", Usage: "check a configuration file with environment and flags over it, and print the effective settings; secrets are not shown",
			ArgsUsage: "FILE",
		}, func(ctx context.Context, call *config.Call) error {
			if len(call.Args) != 1 {
				return config.Usage("config check takes one file")
			}
			values, err := nodeSettings(call, call.Args[0])
			if err != nil {
				return err
			}
			r, err := parseRun(values)
			if err != nil {
				return err
			}
			if err := r.checkFiles(ctx); err != nil {
				return err
			}
			return printFile(call.Out, func(w io.Writer) error { return config.Write(w, call.Settings, values) })
		}), config.Raw[config.Checked](cli.Command{
			Name: "init", Usage: "print a new configuration file with comments; the given options are set in it",
		}, func(_ context.Context, call *config.Call) error {
			return printFile(call.Out, func(w io.Writer) error { return guide.WriteNew(w, call.Settings, call.Given()) })
		})},
	}
}

// printedFile is a configuration file as JSON.
type printedFile struct {
	TOML string `json:"toml"`
}

// printFile prints a configuration file.
func printFile(out *output.Writer, write func(io.Writer) error) error {
	if !out.JSON {
		return write(out)
	}
	var text strings.Builder
	if err := write(&text); err != nil {
		return err
	}
	return out.Result(printedFile{text.String()})
}

// checkFiles reads certificates, keys and authorities as a run does; nothing is asked of any cluster.
func (r runOptions) checkFiles(ctx context.Context) error {
	if _, err := r.own.API.TLS.Identity(); err != nil {
		return err
	}
	return r.CheckConnections(ctx)
}
