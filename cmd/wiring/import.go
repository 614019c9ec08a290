package wiring

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Import is the part of one process, or of one slot of a daemon, in an import.
type Import struct {
	*importer.Import
	in    *Resources
	blobs *repo.Counting
	Kept  *cms.Coordinator // the state of the work
	opened
}

// OpenImport connects to the target and opens the files and the state of the work.
func OpenImport(ctx context.Context, o ImportOptions, log *slog.Logger, in *Resources) (*Import, error) {
	o.stores.Pace = &in.reads
	files, err := OpenFiles(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	h := &Import{in: in, blobs: repo.NewCounting(files)}
	r, err := openReceiver(ctx, o.Options, log, in, &h.opened)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.Kept = r.kept
	LimitMemory(o.Options, h.blobs)
	existing := &importer.Existing{Counts: r.client, Records: session.PriorsOf(r.kept), Policy: o.existing, Chosen: o.existing != "", Log: log}
	identity := maps.Clone(r.identity)
	identity[phase.ExistingKey] = string(o.existing) // empty until it is chosen
	exported := &creation.Exported{Files: h.blobs, Indices: &creation.Indices{Cluster: r.client, Version: r.version, Requester: r.client, Log: log}}
	h.Import = &importer.Import{
		Source: h.blobs, Store: r.store, Session: session.IdentityOf(r.kept), Identity: identity, Clock: timing.SystemClock(), Log: log, Failed: r.failed,
		Indices: &importer.TargetIndices{Cluster: r.client, Creates: o.windows.NewIndices.Create, Make: exported.Make, Ledger: r.ledger, Ask: existing.Ask},
		Ledger:  r.ledger,
		Arrived: func(ctx context.Context, sent cms.Counts) (progress.Arrival, []rollback.Own, error) {
			again, err := progress.ReadRedrives(ctx, r.kept)
			if err != nil {
				return progress.Arrival{}, nil, err
			}
			n := again.TakeAll(sent.Failed)
			sent.Failed, sent.Indexed = sent.Failed-n, sent.Indexed+n
			return existing.Arrived(ctx, sent)
		},
		Missing:     existing.Missing,
		Destination: r.sender,
		Bulk:        bulkOptions(o.Options, in, r.client), Workers: o.Slots, Window: o.windows.Size, Lease: o.windows.Lease, SkewTolerance: o.skewTolerance(), MaxAttempts: o.windows.MaxAttempts,
		Unavailable: o.Unavailable, Types: o.types, IncludeSystem: o.includeSystem, MaxSource: r.longest, Memory: in.Memory, Frames: in.frames, AllowPartial: o.AllowPartial, Token: r.writer, Solo: in.solo,
	}
	if o.windows.NewIndices.Create {
		h.Described = exported.Names
		h.Aliases = (&importer.Aliases{Described: exported.Aliases, Created: session.CreatedOf(r.kept).All, Target: r.client, Ledger: r.ledger, Events: r.kept, Log: log}).Set
	}
	if !existing.Chosen {
		h.AskAll = existing.AskAll
	}
	return h, nil
}

// Sample returns what the process has done so far.
func (h *Import) Sample() metrics.Sample {
	sum, own := h.in.counted(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	sum.RepoRequests, sum.RepoBytes = h.blobs.Totals()
	sum.RepoErrors = h.blobs.Errors()
	return sum
}
