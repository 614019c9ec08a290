package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Limits of the memory for both sides while documents are named.
const (
	namedBytes   = 32 << 20 // of sources; documents beyond it are named without a path
	namedEntries = 150_000  // documents of one side
)

// errMany ends a reading with more than namedEntries documents.
var errMany = errors.New("too many documents of a bucket")

// entry is one document in a bucket that differs.
type entry struct {
	id, routing   string
	exact, values [16]byte
	source        []byte // nil if namedBytes is exhausted
	shard         int
	ordinal       int64
	since         bool
	matched       bool
}

// settle determines the state of a target index, and names the differences.
func (v *Verifier) settle(ctx context.Context, group Group, c *comparison) error {
	r := c.result
	r.SourceSide, r.TargetSide = c.sides[ofSource].all, c.sides[ofTarget].all
	different := c.sides[ofSource].different(c.sides[ofTarget], r.NotComparable != "")
	r.Buckets, r.BucketsDifferent = buckets, len(different)
	if len(r.Problems) > 0 { // unread documents of the source would all be reported as extra
		r.decide()
		return nil
	}
	select {
	case v.naming <- struct{}{}:
		defer func() { <-v.naming }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for len(different) > 0 && len(r.Differences) < v.Names {
		part := c.affordable(different)
		different = different[len(part):]
		err := v.name(ctx, group, c, part)
		if errors.Is(err, errMany) {
			r.NotNamed.add(c, part)
			continue
		}
		if err != nil {
			return err
		}
	}
	r.NotNamed.add(c, different)
	r.decide()
	return nil
}

// affordable returns the first buckets that fit into memory together, at least one.
func (c *comparison) affordable(different []int) []int {
	var documents, size int64
	for i, b := range different {
		s, t := c.sides[ofSource].of(b), c.sides[ofTarget].of(b)
		documents += max(s.Documents, t.Documents)
		size += s.Bytes + t.Bytes
		if i > 0 && (documents > namedEntries/2 || size > namedBytes) {
			return different[:i]
		}
	}
	return different
}

// name reads some buckets on both sides and names the differences in them.
func (v *Verifier) name(ctx context.Context, group Group, c *comparison, some []int) error {
	held := &holding{budget: namedBytes}
	for _, b := range some {
		held.wanted[b] = true
	}
	g, ctx := errgroup.WithContext(ctx)
	for side, units := range [2][]Unit{group.Units, c.held.Units} {
		for _, u := range units {
			g.Go(func() error { return v.hold(ctx, side, u, c, held) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, side := range held.sides { // the result must not depend on the order of reading
		slices.SortFunc(side, func(a, b *entry) int {
			return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.routing, b.routing), cmp.Compare(a.shard, b.shard), cmp.Compare(a.ordinal, b.ordinal), bytes.Compare(a.exact[:], b.exact[:]))
		})
	}
	match(held.sides[ofSource], held.sides[ofTarget], c.result.NotComparable != "", func(d Difference) { c.result.add(d, v.Names) })
	return nil
}

// holding is the set of documents of both sides in memory.
type holding struct {
	wanted [buckets]bool
	mu     sync.Mutex
	budget int // remaining bytes for sources
	sides  [2][]*entry
}

// reserve takes n bytes of the budget; false if it has less.
func (h *holding) reserve(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > h.budget {
		return false
	}
	h.budget -= n
	return true
}

func (h *holding) release(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget += n
}

// hold reads the wanted buckets of a unit into held.
func (v *Verifier) hold(ctx context.Context, side int, u Unit, c *comparison, held *holding) error {
	var found []*entry
	reserved := 0
	hash := newHasher()
	err := v.readUnit(ctx, side, u, 0, func() func(*Document) error {
		held.release(reserved)
		found, reserved = nil, 0
		return func(d *Document) error {
			p := hashID(d.ID)
			switch {
			case side == ofSource && string(d.Index) != c.result.Target, d.Fate != Sent, !held.wanted[bucketOf(p)],
				!v.Sample.has(p), v.Failed.Has(c.result.Target, d.ID):
				return nil
			case len(found) >= namedEntries:
				return errMany
			}
			digests := hash.digest(d)
			e := &entry{id: string(d.ID), routing: string(d.Routing), exact: [16]byte(digests.exact[:16]), values: [16]byte(digests.values[:16]), shard: d.Shard, ordinal: d.Ordinal, since: d.Since}
			if held.reserve(len(d.Source)) {
				e.source = bytes.Clone(d.Source)
				reserved += len(d.Source)
			}
			found = append(found, e)
			return nil
		}
	})
	if err != nil {
		return err
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.sides[side] = append(held.sides[side], found...); len(held.sides[side]) > namedEntries {
		return errMany
	}
	return nil
}

// key identifies a document of one side.
type key struct{ id, routing string }

// match pairs the documents of both sides, first equal documents, then documents with
// equal id and routing, then documents with equal id, and calls emit with each difference. Differences of documents that the target
// wrote after the migration are ChangedSince.
func match(source, target []*entry, keysOnly bool, emit func(Difference)) {
	byKey, byID := map[key][]*entry{}, map[string][]*entry{}
	for _, s := range source {
		k := key{s.id, s.routing}
		byKey[k], byID[s.id] = append(byKey[k], s), append(byID[s.id], s)
	}
	pair := func(among []*entry, t *entry, fits func(s *entry) bool) *entry {
		if t.matched {
			return nil
		}
		for _, s := range among {
			if !s.matched && fits(s) {
				s.matched, t.matched = true, true
				return s
			}
		}
		return nil
	}
	anything := func(*entry) bool { return true }
	for _, t := range target {
		pair(byKey[key{t.id, t.routing}], t, func(s *entry) bool { return keysOnly || s.exact == t.exact })
	}
	for _, t := range target {
		if s := pair(byKey[key{t.id, t.routing}], t, anything); s != nil {
			d := Difference{Kind: Changed, ID: s.id, Routing: s.routing, Shard: s.shard, Ordinal: s.ordinal}
			if s.values == t.values {
				d.Kind = SameValue
			}
			d.explain(t)
			if s.source != nil && t.source != nil {
				d.Path = FirstDifference(s.source, t.source)
			}
			emit(d)
		}
	}
	for _, t := range target {
		if s := pair(byID[t.id], t, anything); s != nil {
			routing := t.routing
			d := Difference{Kind: OtherRouting, ID: s.id, Routing: s.routing, TargetRouting: &routing, Shard: s.shard, Ordinal: s.ordinal}
			d.explain(t)
			emit(d)
		} else if !t.matched {
			d := Difference{Kind: Extra, ID: t.id, Routing: t.routing}
			d.explain(t)
			emit(d)
		}
	}
	for _, s := range source {
		if !s.matched {
			emit(Difference{Kind: Missing, ID: s.id, Routing: s.routing, Shard: s.shard, Ordinal: s.ordinal})
		}
	}
}
