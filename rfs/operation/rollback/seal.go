package rollback

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Own is the number of operations of documents of the session.
type Own struct {
	Targets    []string // indices that received only these documents
	Operations int64    // sequence numbers that the documents used in all of these indices
}

// Seal records the sequence numbers of the created indices at the end of the migration: higher numbers are later writes. A
// recorded number is never replaced, so Seal may be repeated. If own has fewer operations than the indices have used,
// Seal records the difference as operations of other clients, in the same change: a process killed between two changes leaves no
// index with recorded numbers but without the operations of other clients. Numbers that cannot be read stay unknown.
func (l *Ledger) Seal(ctx context.Context, own ...Own) error {
	used := map[string]int64{}
	all, err := l.sequences(ctx, nil, func(c session.Creation, was object) bool {
		used[c.Name] = operations(was.Sequence) - was.Beside
		return was.Sequence == nil
	})
	if err != nil {
		return err
	}
	for _, r := range all {
		used[r.c.Name] = operations(r.is) - r.was.Beside
	}
	foreign := map[string]int64{}
	for _, o := range own {
		n, known := -o.Operations, true
		for _, name := range o.Targets {
			now, read := used[name]
			n, known = n+now, known && read
		}
		for _, name := range o.Targets {
			if known && n > 0 {
				foreign[name] = n
			}
		}
	}
	return l.each(ctx, all, func(name string, was object, is map[string]int64) (object, bool) {
		if was.Touched || was.Sequence != nil {
			return was, false
		}
		was.Sequence, was.Foreign = is, foreign[name]
		return was, true
	})
}

// sealed returns a function that reports whether the sequence numbers of an index are recorded, and its name is in names or names is
// empty.
func sealed(names []string) func(session.Creation, object) bool {
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	return func(c session.Creation, was object) bool {
		return was.Sequence != nil && (len(names) == 0 || named[c.Name])
	}
}

// Written returns the indices, by name, that were written to after the migration ended, with a description of the difference. It
// leaves out indices that the session did not create, and indices that an earlier Unseal has marked.
func (l *Ledger) Written(ctx context.Context, names []string) (map[string]string, error) {
	written := map[string]string{}
	if len(names) == 0 {
		return written, nil
	}
	is := sealed(names)
	all, err := l.sequences(ctx, names, func(c session.Creation, was object) bool { return is(c, was) && !was.Touched })
	for _, r := range all {
		if d := since(r.was.Sequence, r.is); d != "" {
			written[r.c.Name] = d
		}
	}
	return written, err
}

// Unseal must be called before documents are sent to the named indices after the migration has ended; without names, to any created
// index. It marks indices that were written to since the end, since later sequence numbers cannot be attributed.
func (l *Ledger) Unseal(ctx context.Context, names ...string) error {
	all, err := l.sequences(ctx, names, sealed(names))
	if err != nil {
		return err
	}
	return l.each(ctx, all, func(_ string, was object, is map[string]int64) (object, bool) {
		switch {
		case was.Sequence == nil:
			return was, false
		case since(was.Sequence, is) != "":
			was.Touched = true // Sequence stays
			return was, true
		}
		was.Sequence = nil
		return was, !was.Touched
	})
}

// Around runs work that sends documents of the session outside its phases. Afterwards it seals indices again that had no
// other writes since the migration ended. If the process is killed, the former seal stays, and the documents count as
// written after the migration.
func (l *Ledger) Around(ctx context.Context, work func() error) error {
	all, err := l.sequences(ctx, nil, sealed(nil))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	untouched := map[string]map[string]int64{}
	err = l.each(ctx, all, func(name string, was object, is map[string]int64) (object, bool) {
		switch {
		case was.Sequence == nil || was.Touched:
			return was, false
		case since(was.Sequence, is) != "":
			was.Touched = true
			return was, true
		}
		mu.Lock()
		defer mu.Unlock()
		untouched[name] = was.Sequence
		return was, false
	})
	if err != nil {
		return err
	}
	worked := work()
	if len(untouched) == 0 {
		return worked
	}
	all, err = l.sequences(ctx, slices.Collect(maps.Keys(untouched)), func(c session.Creation, _ object) bool { return untouched[c.Name] != nil })
	if err != nil {
		return errors.Join(worked, err)
	}
	return errors.Join(worked, l.each(ctx, all, func(name string, was object, is map[string]int64) (object, bool) {
		before := untouched[name]
		if was.Touched || !maps.Equal(before, was.Sequence) {
			return was, false
		}
		was.Beside += operations(is) - operations(before)
		was.Sequence = is
		return was, true
	}))
}

// operations returns the number of used sequence numbers, given the highest one of each shard.
func operations(sequence map[string]int64) (n int64) {
	for _, highest := range sequence {
		n += highest + 1
	}
	return n
}

// each changes the record of each index, given its name, the record and its current sequence numbers. It calls f concurrently.
func (l *Ledger) each(ctx context.Context, all []reading, f func(name string, was object, is map[string]int64) (object, bool)) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(requestsAtOnce)
	for _, r := range all {
		g.Go(func() error {
			return l.record(gctx, r.c, r.was, func(o object) (object, bool) { return f(r.c.Name, o, r.is) })
		})
	}
	return g.Wait()
}

// requestsAtOnce limits the concurrent requests for sequence numbers and records.
const requestsAtOnce = 8

// reading is the record of an index, with its current sequence numbers.
type reading struct {
	c   session.Creation
	was object
	is  map[string]int64
}

// records yields the records of the named indices and data streams, and maybe of other objects; without names, of all objects.
func (l *Ledger) records(ctx context.Context, names []string) iter.Seq2[session.Creation, error] {
	if len(names) == 0 || len(names) > session.FewRecords {
		return l.Records.All(ctx)
	}
	return func(yield func(session.Creation, error) bool) {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			for _, kind := range []string{Index, DataStream} {
				c, err := l.Records.Read(ctx, kind, name)
				if !errors.Is(err, cms.ErrNotFound) && !yield(c, err) {
					return
				}
			}
		}
	}
}

// sequences returns the records of wanted confirmed indices with their current sequence numbers. All of them have one of the names, if
// there are any. It leaves out indices whose numbers cannot be read.
func (l *Ledger) sequences(ctx context.Context, names []string, wanted func(session.Creation, object) bool) ([]reading, error) {
	var all []reading
	for c, err := range l.records(ctx, names) {
		if err != nil {
			return nil, err
		}
		if (c.Kind != Index && c.Kind != DataStream) || c.State != session.CreationDone {
			continue
		}
		was, err := decodeObject(c)
		if err != nil {
			return nil, err
		}
		if wanted(c, was) {
			all = append(all, reading{c: c, was: was})
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(requestsAtOnce)
	for i := range all {
		g.Go(func() (err error) {
			all[i].is, err = Sequence(gctx, l.API, all[i].c.Name)
			switch {
			case errors.Is(err, errAbsent), errors.Is(err, target.ErrNotAnswered): // an undo states the reason
				return nil
			case errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected):
				l.Log.WarnContext(ctx, "sequence numbers are unknown; `rfsctl undo` will refuse the index", "index", all[i].c.Name, "reason", err.Error())
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r reading) bool { return r.is == nil }), nil
}
