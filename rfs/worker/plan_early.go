package worker

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// Where a repository has latency, each blob that is read after another costs a round trip. The catalog names the indices of a snapshot
// and their shards, so the snapshot's blob, the metadata of its indices and the lists of their shards are read at the same time.
// What is read early is used only where the blob that decides agrees.

// indexPlans are the plans of indices by their place in a list of names.
type indexPlans struct {
	plans  []IndexPlan
	damage []error // of one index each: its metadata cannot be read
	err    error   // that ends the plan
}

// planIndices plans indices at the same time.
func planIndices(ctx context.Context, repo snapshot.Repository, snap *snapshot.Snapshot, names []string, req Request) *indexPlans {
	all := &indexPlans{plans: make([]IndexPlan, len(names)), damage: make([]error, len(names))}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(planReaders)
	for i, name := range names {
		g.Go(func() error {
			x, err := planIndex(gctx, repo, snap, name, req)
			if all.plans[i] = x; errors.Is(err, fault.ErrCorrupt) {
				all.damage[i] = err
				return nil
			}
			return err
		})
	}
	all.err = g.Wait()
	return all
}

// earlyPlans are the plans of the indices that the catalog lists, being made. The nil earlyPlans are none.
type earlyPlans struct {
	names  []string
	cancel context.CancelFunc
	done   chan struct{}
	all    *indexPlans // valid when done is closed
}

// planEarly begins to plan the indices of a snapshot before its own blob is read.
func planEarly(ctx context.Context, repo snapshot.Repository, catalog *snapshot.Catalog, req Request) *earlyPlans {
	snap := catalog.Listed(req.SnapshotName)
	if snap == nil {
		return nil
	}
	names, err := (&Plan{}).selectIndices(snap, req)
	if err != nil || len(names) == 0 {
		return nil
	}
	e := &earlyPlans{names: names, done: make(chan struct{})}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		e.all = planIndices(ctx, repo, snap, names, req)
	}()
	return e
}

// of waits for the plans of the names; nil if others were made.
func (e *earlyPlans) of(names []string) *indexPlans {
	if e == nil || !slices.Equal(names, e.names) {
		return nil
	}
	<-e.done
	return e.all
}

// stop ends what is under way.
func (e *earlyPlans) stop() {
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// earlyLists are the lists of the shards of an index, being read while its metadata are. The nil earlyLists are none.
type earlyLists struct {
	loc    snapshot.Locator
	cancel context.CancelFunc
	done   chan struct{}
	sizes  []int64 // valid when done is closed, as sums
	sums   []string
}

// listEarly begins to read the lists of the shards that the catalog lists, if the request wants them.
func listEarly(ctx context.Context, repo snapshot.Repository, snap *snapshot.Snapshot, name string, req Request) *earlyLists {
	loc, shards, ok := snap.Located(name)
	if !ok || !req.Sizes {
		return nil
	}
	e := &earlyLists{loc: loc, done: make(chan struct{})}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		e.sizes, e.sums = measureShards(ctx, repo, loc, shards, req.Manifests)
	}()
	return e
}

// of waits for the lists if they are those of the index; else it returns nil.
func (e *earlyLists) of(x *snapshot.Index) *earlyLists {
	if e == nil || !e.loc.SameLists(x.Locator) || len(x.Locator.Generations) != x.NumShards {
		return nil
	}
	<-e.done
	return e
}

// stop ends what is under way.
func (e *earlyLists) stop() {
	if e != nil {
		e.cancel()
		<-e.done
	}
}
