package wiring

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

// Preflight returns what a migration would do, and what would prevent it.
func Preflight(ctx context.Context, o Options, ask config.Planning, log *slog.Logger) (*preflight.Report, error) {
	only, err := preflight.Choose(preflight.Sections(ask.Only), o.Target.URL != "", ask.Version)
	if err != nil {
		return nil, err
	}
	if o.Snapshot == "" {
		return nil, config.Usage("plan needs a snapshot that is there (--snapshot-name)")
	}
	o.WarnOfRisks(log)
	memory := o.Memory().Input()
	counted, err := OpenCounted(ctx, o, memory)
	if err != nil {
		return nil, err
	}
	budget.LimitMemory(budget.MemoryOfInput, os.Getenv) // no documents are read at the same time
	o.Target.Memory = memory
	p, err := plan.New(ctx, counted, o.Request())
	if err != nil {
		return nil, PlanError(err)
	}
	e := &preflight.Evaluator{
		Target: preflight.Offline{}, Version: preflight.VersionOf(ask.Version), Repo: counted, Existing: o.existing, Only: only, Documents: ask.Documents,
		Needs: preflight.Needs{BulkBytes: int64(o.bulkBytes), Tolerance: o.skewTolerance(), Session: o.Session, Now: time.Now},
	}
	indices := &creation.Indices{Rules: o.rules, Overrides: o.overrides, Log: log, AllowSource: o.allowSource}
	if o.Target.URL != "" && only.NeedTarget() {
		client, err := target.New(ctx, o.Target)
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
