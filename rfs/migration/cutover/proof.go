package cutover

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// readers is the number of indices, or of shards, that are read concurrently.
const readers = 16

// mostLacks is the maximum number of differences that are named.
const mostLacks = 10

// proof is the result of comparing the source with a snapshot.
type proof struct {
	indices []string // compared indices of the source
	lacks   []string // what the snapshot lacks; empty: nothing
	counted int      // shards without sequence numbers
}

// compare compares each shard of the source with the snapshot: by the highest sequence number or, before Elasticsearch 6, by the number of
// documents.
func (c *Cutover) compare(ctx context.Context, source Source, name string, order session.Cutover) (proof, error) {
	var p proof
	selects, err := c.selects(order)
	if err != nil {
		return p, err
	}
	catalog, err := snapshot.OpenCatalog(ctx, c.Repo)
	if err != nil {
		return p, err
	}
	snap, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return p, err
	}
	all, err := source.Indices(ctx, selects)
	if err != nil {
		return p, err
	}
	p.indices = namesOf(all, func(live.Index) bool { return true })
	if len(p.indices) == 0 && len(order.Indices) > 0 {
		return p, fmt.Errorf("no index of the source that is followed matches %q: %w", order.Indices, fault.ErrConfig)
	}
	shards, err := source.Shards(ctx, namesOf(all, func(x live.Index) bool { return !x.Closed }))
	if err != nil {
		return p, err
	}
	indices := make([]*snapshot.Index, len(all))
	err = inParallel(ctx, len(all), func(ctx context.Context, i int) (err error) {
		if snap.Has(all[i].Name) {
			indices[i], err = snap.Index(ctx, all[i].Name)
		}
		return err
	})
	if err != nil {
		return p, err
	}
	var held []heldShard
	for i, x := range all {
		switch index := indices[i]; {
		case order.Block && !x.Blocked && !x.Closed:
			p.lack("%s takes writes again", x.Name)
		case index == nil:
			p.lack("index %s", x.Name)
		case differ(index.Settings["index.uuid"], x.UUID):
			p.lack("index %s, which was recreated", x.Name)
		case x.Closed: // it takes no writes, and its snapshot has all that it took before
		default:
			for n := range index.NumShards {
				is, ok := shards[x.Name][n]
				if !ok {
					return p, fmt.Errorf("the source does not report what shard %d of %s holds: %w", n, x.Name, fault.ErrUnavailable)
				}
				held = append(held, heldShard{at: index.Locator, n: n, source: is})
			}
		}
	}
	err = inParallel(ctx, len(held), func(ctx context.Context, i int) (err error) {
		if held[i].snapshot, err = readShard(ctx, c.Repo, held[i].at, held[i].n); err != nil {
			err = fmt.Errorf("shard %d of index %s in snapshot %s: %w", held[i].n, held[i].at.IndexName, name, err)
		}
		return err
	})
	if err != nil {
		return p, err
	}
	for _, x := range held {
		switch is, has := x.source, x.snapshot; {
		case !is.Numbered || !has.Numbered:
			if p.counted++; is.Live != has.Live {
				p.lack("shard %d of %s: %d documents, the snapshot has %d", x.n, x.at.IndexName, is.Live, has.Live)
			}
		case is.MaxSeqNo != has.MaxSeqNo:
			p.lack("shard %d of %s: sequence number %d, the snapshot has %d", x.n, x.at.IndexName, is.MaxSeqNo, has.MaxSeqNo)
		}
	}
	return p, nil
}

// heldShard is a shard in the source and in the snapshot.
type heldShard struct {
	at               snapshot.Locator
	n                int
	source, snapshot live.Shard
}

// readShard returns the sequence number and the document count in the commit of a shard.
func readShard(ctx context.Context, r snapshot.Repository, at snapshot.Locator, n int) (is live.Shard, err error) {
	commit, err := difference.OpenCommit(ctx, r, at, n)
	if err != nil {
		return is, err
	}
	is.Live = commit.LiveDocs
	is.MaxSeqNo, is.Numbered, err = difference.MaxSeqNo(commit)
	return is, err
}

// differ reports whether both UUIDs are known and different.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// inParallel calls f with each number below n, readers at a time, and returns the first error.
func inParallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

// lack adds a difference.
func (p *proof) lack(format string, args ...any) {
	if len(p.lacks) < mostLacks {
		p.lacks = append(p.lacks, fmt.Sprintf(format, args...))
	}
}

// note returns a text about shards that could not be compared by sequence numbers; "" if all could be.
func (p *proof) note() string {
	if p.counted == 0 {
		return ""
	}
	return fmt.Sprintf("%d shards have no sequence numbers: their numbers of documents were compared", p.counted)
}
