package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// importSession is the part of one process, or of one slot of a daemon, in an import.
type importSession struct {
	*importer.Import
	in    *resources
	blobs *repo.Counting
	kept  *cms.Coordinator // the state of the work
	opened
}

// openImport puts the parts together.
func openImport(ctx context.Context, o importOptions, log *slog.Logger, in *resources) (*importSession, error) {
	o.stores.Pace = &in.reads
	files, err := repo.Open(ctx, o.from, o.stores)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", o.from, err)
	}
	h := &importSession{in: in, blobs: repo.NewCounting(files)}
	r, err := openReceiver(ctx, o.options, log, in, &h.opened)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.kept = r.kept
	budget.LimitMemory(o.options.memory().Budget(repo.IsRemote(h.blobs.URI())), os.Getenv)
	existing := &importer.Existing{Counts: r.client, Records: session.PriorsOf(r.kept), Way: o.existing, Chosen: o.existing != "", Log: log}
	identity := maps.Clone(r.identity)
	identity[phase.ExistingKey] = string(o.existing) // empty until it is chosen
	h.Import = &importer.Import{
		Source: h.blobs, Store: r.store, Session: session.IdentityOf(r.kept), Identity: identity, Clock: timing.SystemClock(), Log: log, Failed: r.failed,
		Indices: &importer.TargetIndices{Cluster: r.client, Create: o.windows.NewIndices.Create, Ledger: r.ledger, Ask: existing.Ask}, Ledger: r.ledger,
		Arrived: func(ctx context.Context, sent cms.Counts) (progress.Arrival, []rollback.Own, error) {
			again, err := progress.ReadRedrives(ctx, r.kept)
			if err != nil {
				return progress.Arrival{}, nil, err
			}
			n := again.TakeAll(sent.Failed)
			sent.Failed, sent.Indexed = sent.Failed-n, sent.Indexed+n
			return existing.Arrived(ctx, sent)
		},
		Destination: r.sender,
		Bulk:        bulkOptions(o.options, in, r.client), Workers: o.slots, Window: o.windows.Size, Lease: o.windows.Lease, SkewTolerance: o.skewTolerance(), MaxAttempts: o.windows.MaxAttempts,
		Unavailable: o.unavailable, Types: o.types, IncludeSystem: o.includeSystem, MaxSource: r.longest, Memory: in.memory, Frames: in.frames, AllowPartial: o.allowPartial, Token: r.writer, Solo: in.solo,
	}
	if !existing.Chosen {
		h.AskAll = existing.AskAll
	}
	return h, nil
}

func (h *importSession) name() string { return h.Token }

// sample is what the session did so far.
func (h *importSession) sample() metrics.Sample {
	sum, own := h.in.counters.Sample(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	sum.RepoRequests, sum.RepoBytes = h.blobs.Totals()
	sum.RepoErrors = h.blobs.Errors()
	return sum
}

// work takes part until the import is complete or ctx ends, and gives the last record of a worker. tell hears
// which item it has.
func (h *importSession) work(ctx context.Context, tell func(daemon.Record)) (daemon.Record, error) {
	h.Tell = func(x importer.Hold) {
		tell(daemon.Record{Lease: &daemon.Lease{Item: x.Window, Holder: x.Holder, Index: x.File, Shard: x.Number, LeftMs: x.Left.Milliseconds()}})
	}
	tell(daemon.Record{Phase: &daemon.WorkerPhase{Name: "import", State: session.PhaseInProgress}})
	status, err := h.Run(ctx)
	code, sample := exit.Failed, h.sample()
	switch {
	case err != nil:
	case status.Complete:
		code = exit.NoneLeft
	case ctx.Err() != nil:
		code = exit.OK // asked to end: what it had is given back
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "import", Sample: &sample}, err
}
