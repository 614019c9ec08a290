package plan

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// listReaders is the number of indices whose manifests are read concurrently.
const listReaders = 32

// findUnchanged marks the indices that are the same as in the former snapshot of a chain: their shards consist of the same files, and their
// mappings, aliases, settings and positions in data streams are equal. It reads the two manifests of each shard. If a manifest cannot be
// read, the index is treated as changed and its item fails with the reason.
func (p *Plan) findUnchanged(ctx context.Context, repo snapshot.Repository, gen *Generation, was map[string]metadata.StreamPart) error {
	if gen == nil || len(gen.bases) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listReaders)
	for i := range p.Indices {
		x := &p.Indices[i]
		if s := x.Entry.Stream; s != nil && s.Alias != "" && s.Writes != was[x.Name].Writes {
			continue
		}
		g.Go(func() (err error) {
			x.Unchanged, err = x.unchanged(ctx, repo)
			return err
		})
	}
	return g.Wait()
}

// streams returns the backing indices of the data streams in the former snapshots, by name.
func (g *Generation) streams(ctx context.Context) (map[string]metadata.StreamPart, error) {
	parts := map[string]metadata.StreamPart{}
	if g == nil {
		return parts, nil
	}
	for _, b := range g.bases {
		if len(b.DataStreams) == 0 {
			continue
		}
		all, err := ReadStreams(ctx, b.Snapshot)
		if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return nil, fmt.Errorf("data streams of the former snapshot: %w", err)
		}
		for name, part := range metadata.StreamParts(all, func(string) bool { return false }) {
			if g.baseOf(name) == b.Snapshot {
				parts[name] = part
			}
		}
	}
	return parts, nil
}

// unchanged reports whether the metadata and the files of the index are the same as in the former snapshot.
func (x *Index) unchanged(ctx context.Context, repo snapshot.Repository) (bool, error) {
	since := x.Entry.Since
	if since == nil || since.Another || !since.Mapped || !since.Aliased || !since.Set || x.Entry.Create {
		return false, nil
	}
	for n := range x.Entry.Shards {
		is, err := snapshot.OpenShard(ctx, repo, x.Entry.Locator, n)
		var was *snapshot.Shard
		if err == nil {
			was, err = snapshot.OpenShard(ctx, repo, since.Locator, n)
		}
		if err != nil {
			if !errors.Is(err, fault.ErrUnavailable) && ctx.Err() == nil {
				err = nil
			}
			return false, err
		}
		if !is.SameFiles(was) {
			return false, nil
		}
	}
	return true, nil
}
