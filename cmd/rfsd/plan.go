package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

func planCommand() *cli.Command {
	return config.Raw[config.Plan](cli.Command{
		Name: "plan", Usage: "report what a migration would do, and what would prevent it", Description: help.Plan,
	}, func(ctx context.Context, call *config.Call) error {
		values := call.Given()
		if values.Text("target-host") == "" && values.Text("export-dir") == "" {
			values["discard"] = []string{"true"} // nothing is sent in any case
		}
		var p config.Plan
		if err := config.Decode(values, &p); err != nil {
			return err
		}
		o, err := wiring.ForMigration(version, p.Migrate)
		if err != nil {
			return err
		}
		return planMigration(ctx, o, p.Planning, call.Out)
	})
}

// planMigration reports what a migration would do.
func planMigration(ctx context.Context, o wiring.Options, ask config.Planning, out *output.Writer) error {
	log, _ := report.Log(o.Log)
	r, err := wiring.Preflight(ctx, o, ask, log)
	if err != nil {
		return err
	}
	if out.JSON {
		if err := out.Result(r); err != nil {
			return err
		}
	} else {
		report.Plan(terminal.NewWriter(out), r)
	}
	if r.Problems() > 0 {
		return exit.With(exit.Parts, nil)
	}
	return nil
}
