package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// known is the state of a document in a run.
type known struct {
	arrived bool
	// best is the highest rank of the lines of the document.
	best uint8
	// taken states that a line of that rank was processed.
	taken bool
}

// rank returns the rank of a line among the lines of one document: sendable lines are higher, then lines with more of the source.
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

// survey counts the documents and records the highest rank of the lines of each, so that an earlier line of a lower rank is not
// sent. It ignores errors of reading a file, which sending the file returns.
func (r *Redrive) survey(ctx context.Context, names []string) error {
	for _, name := range names {
		e, err := r.Storage.Edit(ctx, name)
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
			r.unknown = true
			continue
		}
		if !is {
			r.found[l.Failure.Index]++
		}
		if r.Later != nil {
			r.later[onTarget(l.Failure.Index, l.Failure.ID, l.Failure.Routing)] = untouched
		}
		r.fates[k] = known{best: max(rank, was.best)}
	}
}

// later states how later rounds of a followed session changed a document.
type later uint8

const (
	untouched later = iota
	deleted
	sent // also where it was deleted, too: its former version, or from another index of the source
)

// findLater finds out how later rounds changed the documents of the files.
func (r *Redrive) findLater(ctx context.Context) error {
	switch {
	case r.Later == nil || len(r.found) == 0:
		return nil
	case r.unknown:
		return fmt.Errorf("more than %d documents, and later rounds may have deleted some of them: move some of the files elsewhere, and deliver them after the others: %w", r.maxKnown, fault.ErrConfig)
	}
	return r.Later(ctx, slices.Sorted(maps.Keys(r.found)), func(d *doc.Document) {
		k := onTarget(string(d.Index), string(d.ID), string(d.Routing))
		switch was, held := r.later[k]; {
		case !held:
		case !d.Delete:
			r.later[k] = sent
		case was == untouched:
			r.later[k] = deleted
		}
	})
}

// documentOf returns the document of a line.
func documentOf(l failed.Line) Document {
	x := l.Failure
	return Document{Index: x.Index, ID: x.ID, Shard: x.Shard, Ordinal: x.Ordinal}
}

// superseded reports whether another line of the document replaces a line of the given rank.
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
