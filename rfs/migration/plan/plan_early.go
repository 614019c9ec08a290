package plan

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/early"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// With a repository of high latency, each sequential read costs a round trip. The catalog lists the indices of a snapshot and their shards,
// so the snapshot's blob, the metadata of its indices and the manifests of their shards are read concurrently. Data that was read early is
// only used if the authoritative blob agrees.

// indexPlans holds the plans of indices, in the order of a list of names.
type indexPlans struct {
	plans  []*Index // nil: the metadata cannot be read
	damage []string // the reason, for a nil plan
	err    error    // error that ends planning
}

// planIndices plans indices concurrently.
func planIndices(ctx context.Context, repo snapshot.Repository, snap *snapshot.Snapshot, names []string, req Request) *indexPlans {
	all := &indexPlans{plans: make([]*Index, len(names)), damage: make([]string, len(names))}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(planReaders)
	for i, name := range names {
		if gctx.Err() != nil { // there may be hundreds of thousands
			break
		}
		g.Go(func() error {
			x, err := planIndex(gctx, repo, snap, name, req)
			switch {
			case err == nil:
				all.plans[i] = &x
			case errors.Is(err, fault.ErrCorrupt):
				all.damage[i] = fault.Text(err)
				return nil
			}
			return err
		})
	}
	if all.err = g.Wait(); all.err == nil && ctx.Err() != nil {
		all.err = context.Cause(ctx)
	}
	return all
}

// earlyPlans are plans in progress of the indices that the catalog lists.
type earlyPlans struct {
	names []string
	*early.Result[*indexPlans]
}

// planEarly starts planning the indices of a snapshot before its own blob is read.
func planEarly(ctx context.Context, repo snapshot.Repository, catalog *snapshot.Catalog, req Request) (e earlyPlans) {
	snap := catalog.Listed(req.SnapshotName)
	if snap == nil {
		return e
	}
	names, err := (&Plan{}).selectIndices(snap, req)
	if err != nil || len(names) == 0 {
		return e
	}
	return earlyPlans{names, early.Start(ctx, func(ctx context.Context) *indexPlans { return planIndices(ctx, repo, snap, names, req) })}
}

// of blocks until the plans are made. It returns nil if names are not the planned ones, or if the snapshot's blob locates its shards
// itself.
func (e earlyPlans) of(snap *snapshot.Snapshot, names []string) *indexPlans {
	if e.Result == nil || snap.Pins() || !slices.Equal(names, e.names) {
		return nil
	}
	return e.Wait()
}

// shardLists are the results of measureShards.
type shardLists struct {
	sizes []int64
	sums  []string
}

// earlyLists are the manifests of an index's shards, which are read concurrently with the metadata of the index.
type earlyLists struct {
	loc snapshot.Locator
	*early.Result[*shardLists]
}

// listEarly starts reading the manifests of the shards that the catalog lists, if the request needs them.
func listEarly(ctx context.Context, repo snapshot.Repository, snap *snapshot.Snapshot, name string, req Request) (e earlyLists) {
	loc, shards, ok := snap.Located(name)
	if !ok || !req.Sizes {
		return e
	}
	return earlyLists{loc, early.Start(ctx, func(ctx context.Context) *shardLists {
		sizes, sums := measureShards(ctx, repo, loc, shards, req.Manifests)
		return &shardLists{sizes, sums}
	})}
}

// of blocks until the manifests are read. It returns nil if they do not belong to the index.
func (e earlyLists) of(x *snapshot.Index) *shardLists {
	if e.Result == nil || !e.loc.SameLists(x.Locator) || len(x.Locator.Generations) != x.NumShards {
		return nil
	}
	return e.Wait()
}
