package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

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
		Destination: r.sender,
		Bulk:        bulkOptions(o.Options, in, r.client), Workers: o.Slots, Window: o.windows.Size, Lease: o.windows.Lease, SkewTolerance: o.skewTolerance(), MaxAttempts: o.windows.MaxAttempts,
		Unavailable: o.Unavailable, Types: o.types, IncludeSystem: o.includeSystem, MaxSource: r.longest, Memory: in.Memory, Frames: in.frames, AllowPartial: o.AllowPartial, Token: r.writer, Solo: in.solo,
	}
	if o.windows.NewIndices.Create {
		h.Described = exported.Names
		h.Aliases = func(ctx context.Context) error { return r.setAliases(ctx, exported, log) }
	}
	if !existing.Chosen {
		h.AskAll = existing.AskAll
	}
	return h, nil
}

// setAliases sets the described aliases of the indices that the session has created. It logs and records those that the target refuses.
func (r *receiver) setAliases(ctx context.Context, exported *creation.Exported, log *slog.Logger) error {
	all, err := exported.Aliases(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	for c, err := range session.CreatedOf(r.kept).All(ctx) {
		if err != nil {
			return err
		}
		if c.Kind != rollback.Index || c.State != session.CreationDone || all[c.Name] == nil {
			continue
		}
		if err := r.ledger.IntendAliases(ctx, c.Name, all[c.Name]); err != nil {
			return err
		}
		refused, err := creation.SetEach(ctx, r.client, c.Name, all[c.Name])
		if err != nil {
			return fmt.Errorf("aliases of %s: %w", c.Name, err)
		}
		for _, alias := range slices.Sorted(maps.Keys(refused)) {
			log.ErrorContext(ctx, "alias refused: set it by hand", "index", c.Name, "alias", alias, "reason", refused[alias])
			if _, err := r.kept.Event(ctx, fmt.Sprintf("alias %s of %s", alias, c.Name), "refused", refused[alias]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sample returns what the process has done so far.
func (h *Import) Sample() metrics.Sample {
	sum, own := h.in.counted(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	sum.RepoRequests, sum.RepoBytes = h.blobs.Totals()
	sum.RepoErrors = h.blobs.Errors()
	return sum
}
