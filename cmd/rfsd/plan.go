package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/source/repo"
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
		o, err := newOptions(version, p.Migrate)
		if err != nil {
			return err
		}
		return planMigration(ctx, o, p.Planning, call.Out)
	})
}

// sectionsOf returns the sections of a plan: those that were asked for, or all that are possible.
func sectionsOf(o options, ask config.Planning) (preflight.Sections, error) {
	possible := preflight.AllSections()
	switch {
	case o.target.URL != "" && ask.Version != "":
		return nil, config.Usage("--target-host and --target-version exclude each other: the target reports its version")
	case ask.Version != "":
		possible = preflight.Sections{preflight.Changes, preflight.Sizes}
	case o.target.URL == "":
		possible = preflight.Sections{preflight.Sizes}
	}
	for _, x := range ask.Only {
		if !possible.Has(x) {
			return nil, config.Usage("--only %s needs a target (--target-host)", x)
		}
	}
	if len(ask.Only) > 0 {
		return preflight.Sections(ask.Only), nil
	}
	return possible, nil
}

// planMigration reports what a migration would do.
func planMigration(ctx context.Context, o options, ask config.Planning, out *output.Writer) error {
	only, err := sectionsOf(o, ask)
	if err != nil {
		return err
	}
	if o.snapshot == "" {
		return config.Usage("plan needs a snapshot that is there (--snapshot-name)")
	}
	log, _ := report.Log(o.log)
	o.warnOfRisks(log)
	blobs, err := openRepository(ctx, o)
	if err != nil {
		return exit.With(exit.Snapshot, fmt.Errorf("repository %s: %w", o.repoURI, err))
	}
	counted := repo.NewCounting(blobs)
	budget.LimitMemory(budget.MemoryOfInput, os.Getenv) // no documents are read at the same time
	memory := o.memory().Input()
	counted.LargeAlone(memory.Alone)
	o.target.Memory = memory
	p, err := plan.New(ctx, counted, o.request())
	if err != nil {
		return planError(err)
	}
	e := &preflight.Evaluator{
		Target: preflight.Offline{}, Version: preflight.VersionOf(ask.Version), Repo: counted, Existing: o.existing, Only: only, Documents: ask.Documents,
		Needs: preflight.Needs{BulkBytes: int64(o.bulkBytes), Tolerance: o.skewTolerance(), Session: o.session, Now: time.Now},
	}
	indices := &creation.Indices{Rules: o.rules, Overrides: o.overrides, Log: log, AllowSource: o.allowSource}
	if o.target.URL != "" && only.NeedTarget() {
		client, err := target.New(ctx, o.target)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing was written through it
		if e.Version, err = client.Info(ctx); err != nil {
			return err
		}
		e.Target, indices.UUIDs = client, client
	}
	dry := objects.DryRunCluster{Target: e.Target}
	e.Globals = &creation.Globals{Cluster: dry, Version: e.Version, Wanted: o.globals, Log: log}
	indices.Cluster, indices.Version, indices.Requester, indices.Globals = dry, e.Version, e.Target, e.Globals
	e.Indices = indices
	r, err := e.Evaluate(ctx, p)
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
