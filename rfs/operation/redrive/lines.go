package redrive

import (
	"context"
	"errors"

	"github.com/rfsd/rfsd/rfs/destination/failed"
)

// known is the state of a document in a run.
type known struct {
	arrived bool
	// best is the rank of the best line of the document that was found.
	best uint8
	// taken: a line of that rank was dealt with.
	taken bool
}

// rank orders the lines of one document: one that can be sent before one that cannot, then by how much of the source it holds.
func rank(l failed.Line) uint8 {
	var r uint8
	switch {
	case l.Content == failed.None:
		r = 1
	case l.Content == failed.Hash:
		r = 2
	case l.Failure.Source != nil:
		r = 3
	}
	if sendable(l) {
		r += 4
	}
	return r
}

// survey counts the documents, and notes the rank of the best line of each, so that lesser ones that come first are not taken
// for it. Files that
// cannot be read to their end are surveyed as far as they can be: sending them returns why.
func (r *Redrive) survey(ctx context.Context, names []string) error {
	for _, name := range names {
		e, err := r.Place.Edit(ctx, name)
		if errors.Is(err, failed.ErrInUse) {
			continue
		}
		if err != nil {
			return inFile(name, err)
		}
		r.surveyFile(ctx, e)
		if err := e.Close(); err != nil {
			return inFile(name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (r *Redrive) surveyFile(ctx context.Context, e Edit) {
	in, err := e.Open(ctx)
	if err != nil {
		return
	}
	defer in.Close() //nolint:errcheck // it was read only
	for l, err := range failed.Lines(in, r.MaxDocument) {
		if err != nil || ctx.Err() != nil {
			return
		}
		if l.Err != nil {
			continue
		}
		k, rank := documentOf(l).key(), rank(l)
		was, is := r.fates[k]
		if !is && len(r.fates) == r.maxKnown {
			continue
		}
		if !is {
			r.found[l.Failure.Index]++
		}
		r.fates[k] = known{best: max(rank, was.best)}
	}
}

// documentOf returns the document of a line.
func documentOf(l failed.Line) Document {
	x := l.Failure
	return Document{Index: x.Index, ID: x.ID, Shard: x.Shard, Ordinal: x.Ordinal}
}

// superseded reports whether another line of the document is used in place of one of a rank.
func (k known) superseded(rank uint8) bool {
	switch {
	case rank < k.best:
		return true
	case !k.taken:
		return false
	case k.arrived:
		return true
	}
	return rank == k.best
}
