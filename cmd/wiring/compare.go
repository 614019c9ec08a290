package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Comparison returns what compares the target of the options, within the budget of the process. A round of a followed cluster is compared by
// the records of round 0.
func Comparison(o Options, ask config.Verification, memory *budget.Budget, log *slog.Logger) *compare.Run {
	o = o.whole()
	at, _ := o.failedAt() // without it a warning can name the place that was read
	return &compare.Run{
		Place: at, Target: o.Target, Memory: memory, Version: o.version, Sample: float64(ask.Sample), Quick: ask.Quick, Strict: ask.Strict, Changed: ask.Changed, Names: ask.Differences,
		Readers: o.Slots, MaxDocument: o.maxDocument, MaxRate: o.maxRate, MaxLatency: o.maxLatency, Lease: o.leases.Initial,
		Failed: func(ctx context.Context, _ *target.Client, kept *cms.Coordinator, mine bool) (*verify.Failed, error) {
			return failedOf(ctx, o, kept, mine)
		},
		State: func(ctx context.Context, client *target.Client) (*cms.Coordinator, func() error, error) {
			return stateOfSession(ctx, o, client)
		},
		NoSession: state.ErrNone, StateDir: state.Dir, Temporary: func() (cms.Store, func() error, error) { return state.CreateFile("") },
		Log: log,
	}
}

// CompareSnapshot compares the target with the snapshot of a repository.
func CompareSnapshot(ctx context.Context, o Options, blobs repo.Repository, run *compare.Run) (*verify.Report, error) {
	p, err := plan.New(ctx, blobs, o.Request())
	if err != nil {
		return nil, PlanError(err)
	}
	s := compare.Snapshot{
		Comparison: compare.Comparison{Repo: blobs, Edit: shards.Edits(o.rules), Redirects: o.rules.Targets, Memory: run.Memory, MaxDocument: o.maxDocument, Identity: comparedIdentity(o, blobs, p), Changed: run.Changed, Log: run.Log},
		Plan:       p, Rules: o.rules, Overrides: o.overrides, TypesOnly: run.Quick || run.Changed,
		Mine: func(ctx context.Context, state *cms.Coordinator) (bool, error) {
			mine, later, err := phase.Migrates(ctx, state, p)
			if later {
				run.Log.Warn("the session follows the cluster past this snapshot: documents that later rounds change differ from it", "snapshot", p.Snapshot)
			}
			return mine, err
		},
	}
	if run.Changed && !o.follow.Whole {
		s.Since = o.follow.Since
	}
	run.Failed = func(ctx context.Context, client *target.Client, kept *cms.Coordinator, mine bool) (*verify.Failed, error) {
		rounds := failedRounds{o.whole(), blobs, client, run.Memory, run.Log}
		if run.Changed {
			return rounds.round(ctx, kept, o.round, nil)
		}
		return rounds.of(ctx, p.Snapshot, kept, mine)
	}
	return run.Compare(ctx, blobs.URI(), s.Source())
}

// CompareFiles compares the target with files, such as an export.
func CompareFiles(ctx context.Context, o ImportOptions, files repo.Repository, run *compare.Run) (*verify.Report, error) {
	source := importer.Comparison{Source: files, Types: o.types, AllowPartial: o.AllowPartial, IncludeSystem: o.includeSystem, MaxDocument: o.maxDocument,
		Memory: run.Memory, Frames: budget.New(importer.MaxBack, 0), Log: run.Log}
	identity := fmt.Sprintf("%s %s %s %t %d", o.version, plan.RepositoryIdentity(files.URI()), o.types, o.includeSystem, o.maxDocument)
	return run.Compare(ctx, files.URI(), source.Compared(files, identity))
}

// failedOf reads which documents the migration has recorded as failed: from its directory or bucket, and from its state where the session
// is of the compared source (mine).
func failedOf(ctx context.Context, o Options, kept *cms.Coordinator, mine bool) (*verify.Failed, error) {
	all, err := failedFiles(ctx, o, kept)
	if err == nil && mine {
		err = compare.AddRecorded(ctx, all, kept)
	}
	return all, err
}

// failedFiles reads the directory or bucket of the failed documents.
func failedFiles(ctx context.Context, o Options, kept *cms.Coordinator) (*verify.Failed, error) {
	if o.FailedDir == "" {
		return &verify.Failed{}, nil
	}
	files, err := repo.Open(ctx, o.FailedDir, o.stores)
	if err != nil {
		if _, serr := os.Stat(o.FailedDir); !repo.IsBucket(o.FailedDir) && errors.Is(serr, fs.ErrNotExist) {
			return &verify.Failed{}, nil
		}
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	return compare.FailedIn(ctx, files, o.FailedDir, kept)
}

// comparedIdentity identifies the snapshot and all settings that decide which documents are sent; "" when the snapshot has no identity.
func comparedIdentity(o Options, blobs repo.Repository, plan *plan.Plan) string {
	if plan.Identity == "" {
		return ""
	}
	settings, err := json.Marshal(o.SessionSettings(blobs))
	if err != nil { // texts only
		return ""
	}
	return o.version + " " + plan.Identity + " " + string(settings)
}

// stateOfSession opens the state of the session; nil where none was named and none exists. The error is
// state.ErrNone where a named session does not exist.
func stateOfSession(ctx context.Context, o Options, client *target.Client) (*cms.Coordinator, func() error, error) {
	nothing := func() error { return nil }
	session, end, err := openSession(ctx, o, client)
	if errors.Is(err, state.ErrNone) && o.Session == "" && o.coordinatorFile == "" {
		return nil, nothing, nil
	}
	if err != nil {
		return nil, nothing, err
	}
	return session, end, nil
}
