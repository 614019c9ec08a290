package cutover

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// readers is the number of shards whose commits are read at a time.
const readers = 16

// mostLacks bounds the differences that are named.
const mostLacks = 10

// proof holds the result of a comparison of the source with a snapshot.
type proof struct {
	indices []string // of the source, which were compared
	lacks   []string // what the snapshot lacks; none: it has everything
	note    string   // what could not be compared
}

// compare compares what each shard of the source holds with the snapshot: by the highest sequence number, or, before Elasticsearch 6, by
// the number of documents.
func (c *Cutover) compare(ctx context.Context, source Source, name string, order session.Cutover) (proof, error) {
	var p proof
	selects, err := c.selects(order)
	if err != nil {
		return p, err
	}
	lacks := func(format string, args ...any) {
		if len(p.lacks) < mostLacks {
			p.lacks = append(p.lacks, fmt.Sprintf(format, args...))
		}
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
	shards, err := source.Shards(ctx, p.indices)
	if err != nil {
		return p, err
	}
	counted := 0
	for _, x := range all {
		if order.Block && !x.Blocked {
			lacks("%s takes writes again", x.Name)
			continue
		}
		if !snap.Has(x.Name) {
			lacks("index %s", x.Name)
			continue
		}
		index, err := snap.Index(ctx, x.Name)
		if err != nil {
			return p, err
		}
		if uuid := index.Settings["index.uuid"]; uuid != "" && x.UUID != "" && uuid != x.UUID {
			lacks("index %s, which was recreated", x.Name)
			continue
		}
		commits := make([]*lucene.Commit, index.NumShards)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readers)
		for n := range commits {
			g.Go(func() (err error) {
				if commits[n], err = difference.OpenCommit(gctx, c.Repo, index.Locator, n); err != nil {
					err = fmt.Errorf("shard %d of index %s in snapshot %s: %w", n, x.Name, name, err)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return p, err
		}
		for n, commit := range commits {
			is, ok := shards[x.Name][n]
			if !ok {
				return p, fmt.Errorf("the source does not report what shard %d of %s holds: %w", n, x.Name, fault.ErrUnavailable)
			}
			has, numbered, err := difference.MaxSeqNo(commit)
			switch {
			case err != nil:
				return p, fmt.Errorf("shard %d of index %s in snapshot %s: %w", n, x.Name, name, err)
			case is.Numbered != numbered || !numbered:
				if counted++; is.Live != commit.LiveDocs {
					lacks("shard %d of %s: %d documents, the snapshot has %d", n, x.Name, is.Live, commit.LiveDocs)
				}
			case is.MaxSeqNo != has:
				lacks("shard %d of %s: sequence number %d, the snapshot has %d", n, x.Name, is.MaxSeqNo, has)
			}
		}
	}
	if counted > 0 {
		p.note = fmt.Sprintf("%d shards have no sequence numbers: their numbers of documents were compared", counted)
	}
	return p, nil
}
