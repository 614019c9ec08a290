package wiring

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// OpenRepository opens the repository. When this session creates the snapshot, the repository
// may not be there before the source has written to it: then it is opened when it is read first.
func OpenRepository(ctx context.Context, o Options) (repo.Repository, error) {
	if o.origin.derived {
		return &repo.Lazy{Address: o.repoURI, Options: o.stores}, nil
	}
	blobs, err := repo.OpenFederation(ctx, o.repoURI, o.remotes, o.stores)
	if err == nil {
		return blobs, nil
	}
	err = fmt.Errorf("repository %s: %w", o.repoURI, err)
	if repo.IsRemote(o.repoURI) { // no access, or wrong options
		return nil, err
	}
	return nil, exit.With(exit.Snapshot, err)
}

// OpenCounted opens the repository, counts its requests, and reads large blobs within memory.
func OpenCounted(ctx context.Context, o Options, memory *budget.Budget) (*repo.Counting, error) {
	blobs, err := OpenRepository(ctx, o)
	if err != nil {
		return nil, err
	}
	counted := repo.NewCounting(blobs)
	counted.LargeAlone(memory.Alone)
	return counted, nil
}

// OpenFiles opens the files of an import.
func OpenFiles(ctx context.Context, o Options) (repo.Repository, error) {
	files, err := repo.Open(ctx, o.from, o.stores)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", o.from, err)
	}
	return files, nil
}

// Request returns the parts of the snapshot that are read.
func (o Options) Request() plan.Request {
	r := o.conversion
	r.SnapshotName, r.Session, r.Indices, r.IncludeSystem, r.AllowPartial = o.Snapshot, o.Session, o.indices, o.includeSystem, o.AllowPartial
	r.Rename, r.Rules, r.Trial, r.Follow = o.overrides, o.rules, o.Trial, o.follow
	return r
}

// SessionSettings returns the settings that all processes of a session have in common, for a repository.
func (o Options) SessionSettings(blobs repo.Repository) map[string]string {
	return o.Request().Settings(blobs.URI())
}

// PlanError returns an error of plan.New with its exit code: wrong names are the user's, a store that does not answer has no code of its
// own, and the rest is the snapshot's.
func PlanError(err error) error {
	if err == nil || errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return exit.With(exit.Snapshot, err)
}

// snapshotOptions returns which snapshot is read, or created under a name that every worker derives.
func (o Options) snapshotOptions(settings map[string]string) phase.SnapshotOptions {
	s := phase.SnapshotOptions{
		Name: o.Snapshot, Derived: o.origin.derived, Repository: o.origin.repository.Name, Retry: o.origin.from.Retry, Renews: o.Renews, AllowPartial: o.AllowPartial, NoWait: o.origin.from.NoWait,
	}
	if s.Derived {
		s.Name = session.SnapshotName(o.Session, settings)
	}
	return s
}

// LiveSource returns the source cluster. The snapshot is made of the allowed indices when all of them are named, without indices that are
// not followed any more.
func (o Options) LiveSource() *live.Source {
	s := &live.Source{
		Connect:    func(ctx context.Context) (rest.API, error) { return target.New(ctx, o.origin.cluster) },
		Repository: o.origin.repository, Global: !o.origin.from.WithoutGlobalState, Partial: o.AllowPartial,
		Selects: o.Request().Selects, Indices: o.indices.Names(),
	}
	if o.follow != nil {
		s.Without, s.Vanishing, s.Named = o.follow.Ended, o.follow.Since != "", len(o.follow.Group) > 0
	}
	return s
}

// Estimate returns what estimates a migration by its trial run.
func (o Options) Estimate(p *plan.Plan, blobs *repo.Counting, memory *budget.Budget) *estimate.Run {
	return &estimate.Run{Plan: p, Blobs: blobs, Memory: memory, Edit: shards.Edits(o.rules), MaxDocument: o.maxDocument, Slots: o.Slots, Price: o.price}
}
