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

// Where a repository has latency, each blob that is read after another costs a round trip. The catalog names the indices of a snapshot
// and their shards, so the snapshot's blob, the metadata of its indices and the lists of their shards are read at the same time.
// Blobs that are read early are used only where the decisive blob agrees.

// indexPlans are the plans of indices by their place in a list of names.
type indexPlans struct {
	plans  []*Index // nil: its metadata cannot be read
	damage []string // of one index each: why
	err    error    // that ends the plan
}

// planIndices plans indices at the same time.
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

// earlyPlans are the plans of the indices that the catalog lists, being made.
type earlyPlans struct {
	names []string
	*early.Result[*indexPlans]
}

// planEarly starts to plan the indices of a snapshot before its own blob is read.
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

// of waits for the plans of the names; nil if others were made, or the snapshot's own blob states where its shards are.
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

// earlyLists are the lists of the shards of an index, being read while its metadata are.
type earlyLists struct {
	loc snapshot.Locator
	*early.Result[*shardLists]
}

// listEarly starts to read the lists of the shards that the catalog lists, if the request wants them.
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

// of blocks until the lists are read if they belong to the index; else it returns nil.
func (e earlyLists) of(x *snapshot.Index) *shardLists {
	if e.Result == nil || !e.loc.SameLists(x.Locator) || len(x.Locator.Generations) != x.NumShards {
		return nil
	}
	return e.Wait()
}
