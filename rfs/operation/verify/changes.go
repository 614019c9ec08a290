package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

// Limits of one request that looks up documents on the target.
const (
	foundDocuments = 500
	foundBytes     = 4 << 20 // of sources as they were sent
)

// Changes looks up the documents of the groups' units on the target: sent documents must exist with their sources, and
// documents that are Gone must not exist. It ignores other documents of the target. One process runs it alone, and reads
// at most Readers units at a time; each keeps the documents of one request in memory.
func (v *Verifier) Changes(ctx context.Context, groups []Group) ([]*Index, error) {
	var all []*Index
	parts := make([]*changes, len(groups))
	for i, group := range groups {
		x := &changes{Verifier: v, of: map[string]*comparison{}}
		parts[i] = x
		for _, name := range group.Targets {
			held, err := v.Target.Content(ctx, name)
			if err != nil {
				return nil, fmt.Errorf("target index %s: %w", name, err)
			}
			c := &comparison{held: held, result: &Index{Target: name}}
			c.open(group)
			x.of[name], all = c, append(all, c.result)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(v.Readers)
	for i, group := range groups {
		for _, u := range group.Units {
			g.Go(func() error { return parts[i].unit(ctx, u) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, x := range all {
		x.decide()
	}
	slices.SortFunc(all, func(a, b *Index) int { return strings.Compare(a.Target, b.Target) })
	return all, nil
}

// changes is the comparison of the changed documents of a group.
type changes struct {
	*Verifier
	mu sync.Mutex
	of map[string]*comparison // by target index
}

// unit looks up the documents of a unit. Permanently unreadable data is part of the result.
func (x *changes) unit(ctx context.Context, u Unit) error {
	var some []*Document
	size := 0
	flush := func() error {
		err := x.lookUp(ctx, some)
		some, size = some[:0], 0
		return err
	}
	err := x.readUnit(ctx, ofSource, u, 0, func() func(*Document) error {
		return func(d *Document) error {
			if x.of[string(d.Index)] == nil {
				return fmt.Errorf("%s, ordinal %d: the document goes to %q, which is not one of its target indices: %w", u.Name, d.Ordinal, d.Index, fault.ErrUnsupported)
			}
			if !x.counts(d) {
				return nil
			}
			copied := *d
			copied.Index, copied.ID, copied.Routing, copied.Source = bytes.Clone(d.Index), bytes.Clone(d.ID), bytes.Clone(d.Routing), bytes.Clone(d.Source)
			some, size = append(some, &copied), size+len(d.Source)
			if len(some) < foundDocuments && size < foundBytes {
				return nil
			}
			return flush()
		}
	})
	if err == nil {
		err = flush()
	}
	if err == nil || ctx.Err() != nil || !unreadable(err) {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.of {
		c.result.Problems = append(c.result.Problems, fault.Text(err))
	}
	return nil
}

// counts counts a document, and reports whether it must be looked up.
func (x *changes) counts(d *Document) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.of[string(d.Index)].result
	if d.Fate != Gone {
		r.SourceDocuments++
	}
	switch {
	case d.Fate == Filtered:
		r.Filtered++
	case d.Fate == Unsent:
		if r.Unsent == nil {
			r.Unsent = map[string]int64{}
		}
		r.Unsent[d.Reason]++
	case x.Failed.Has(r.Target, d.ID):
		r.Failed++
	default:
		return x.Sample.has(hashID(d.ID))
	}
	return false
}

// lookUp compares documents with the target's documents of the same keys.
func (x *changes) lookUp(ctx context.Context, some []*Document) error {
	if len(some) == 0 {
		return nil
	}
	keys := make([]Key, len(some))
	for i, d := range some {
		keys[i] = Key{Index: string(d.Index), ID: string(d.ID), Routing: string(d.Routing)}
	}
	found, err := x.find(ctx, keys)
	if err != nil {
		return err
	}
	hash := newHasher()
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, d := range some {
		x.pair(hash, d, found[i])
	}
	return nil
}

// find returns the target's documents. It retries while the target is unavailable.
func (x *changes) find(ctx context.Context, keys []Key) ([]Found, error) {
	policy := retry.Policy{Tries: x.Tries, First: 2 * time.Second, Max: 32 * time.Second, Sleep: x.Pause}
	for tries := policy.Start(); ; {
		found, err := x.Options.Find(ctx, keys)
		switch {
		case err != nil:
		case len(found) != len(keys):
			return nil, fmt.Errorf("the target answered for %d documents of %d: %w", len(found), len(keys), fault.ErrUnavailable)
		default:
			return found, nil
		}
		if again := tries.Again(ctx, err); again != nil {
			return nil, again
		}
		x.Log.WarnContext(ctx, "documents are looked up again", "error", err)
	}
}

// pair compares a document with the target's. A higher version on the target means that it was written after the round.
func (x *changes) pair(hash *hasher, d *Document, f Found) {
	c := x.of[string(d.Index)]
	is := &entry{id: string(d.ID), routing: f.Routing, source: f.Source, since: f.Version > d.Version}
	if d.Fate != Gone {
		c.result.SourceSide.Documents++
	}
	if f.There {
		x.read[ofTarget].Add(1)
		x.size[ofTarget].Add(int64(len(f.Source)))
	}
	var source, target []*entry
	if f.There && (d.Fate != Gone || f.Version != d.Version) { // with an equal version it was sent again, and is compared as such
		c.result.TargetDocuments++
		c.result.TargetSide.Documents++
		digests := hash.digest(&Document{ID: d.ID, Routing: []byte(f.Routing), Source: f.Source})
		is.exact, is.values = [16]byte(digests.exact[:16]), [16]byte(digests.values[:16])
		target = append(target, is)
	}
	if d.Fate != Gone {
		digests := hash.digest(d)
		source = append(source, &entry{id: string(d.ID), routing: string(d.Routing), source: d.Source, shard: d.Shard, ordinal: d.Ordinal,
			exact: [16]byte(digests.exact[:16]), values: [16]byte(digests.values[:16])})
	}
	match(source, target, c.result.NotComparable != "", func(diff Difference) { c.result.add(diff, x.Names) })
}
