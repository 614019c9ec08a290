package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
)

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

// evaluate returns what a migration would do, and what would prevent it.
func evaluate(ctx context.Context, o options, ask config.Planning, log *slog.Logger) (*preflight.Report, error) {
	only, err := sectionsOf(o, ask)
	if err != nil {
		return nil, err
	}
	if o.snapshot == "" {
		return nil, config.Usage("plan needs a snapshot that is there (--snapshot-name)")
	}
	o.warnOfRisks(log)
	memory := o.memory().Input()
	counted, err := openCounted(ctx, o, memory)
	if err != nil {
		return nil, err
	}
	budget.LimitMemory(budget.MemoryOfInput, os.Getenv) // no documents are read at the same time
	o.target.Memory = memory
	p, err := plan.New(ctx, counted, o.request())
	if err != nil {
		return nil, planError(err)
	}
	e := &preflight.Evaluator{
		Target: preflight.Offline{}, Version: preflight.VersionOf(ask.Version), Repo: counted, Existing: o.existing, Only: only, Documents: ask.Documents,
		Needs: preflight.Needs{BulkBytes: int64(o.bulkBytes), Tolerance: o.skewTolerance(), Session: o.session, Now: time.Now},
	}
	indices := &creation.Indices{Rules: o.rules, Overrides: o.overrides, Log: log, AllowSource: o.allowSource}
	if o.target.URL != "" && only.NeedTarget() {
		client, err := target.New(ctx, o.target)
		if err != nil {
			return nil, err
		}
		defer client.Close() //nolint:errcheck // nothing was written through it
		if e.Version, err = client.Info(ctx); err != nil {
			return nil, err
		}
		e.Target, indices.UUIDs = client, client
	}
	dry := objects.DryRunCluster{Target: e.Target}
	e.Globals = &creation.Globals{Cluster: dry, Version: e.Version, Wanted: o.globals, Log: log}
	indices.Cluster, indices.Version, indices.Requester, indices.Globals = dry, e.Version, e.Target, e.Globals
	e.Indices = indices
	return e.Evaluate(ctx, p)
}
