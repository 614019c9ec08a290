// Package verify compares what a migration was to send with what a target holds: counts, digests that do not depend on
// any order, and, where these differ, the documents by their ids.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Document is one document of either side. All slices are borrowed until the reader's next step.
type Document struct {
	Index       []byte // target index that it is sent to; ignored on the target's side
	ID, Routing []byte
	Source      []byte
	Shard       int   // of the source
	Ordinal     int64 // likewise
	Fate        Fate
	Reason      string // why it is not sent
	// Since reports that the target's document was written after the migration.
	Since bool
}

// Fate is what a migration does with a document.
type Fate uint8

// The fates.
const (
	Sent     Fate = iota
	Filtered      // left out by rules of the user
	Unsent        // it cannot be sent, for Reason
)

// Unit is a part of one side that is read at once, such as a shard. Units of one side have no document in common.
type Unit struct {
	Name string
	// Key identifies the content of the unit: units of one key are equal for ever. "": its content may change.
	Key string
	// Read calls each with every document. It may be repeated. An error of each ends it and is returned.
	Read func(ctx context.Context, each func(*Document) error) error
	// Count returns the number of Lucene documents that live, nested ones included. Only units of the source need it.
	Count func(ctx context.Context) (int64, error)
}

// Group is a set of target indices and everything that sends documents to them.
type Group struct {
	Targets []string // names, sorted
	Sources []string // what they come from, to be named in the report
	Units   []Unit
	// Uncounted is why numbers of documents of both sides may differ, "" when they may not.
	Uncounted string
}

// Join adds a group to groups, together with those that it shares a target with: then shared is why numbers may differ, unless one
// of them has a reason of its own.
func Join(groups []Group, g Group, shared string) []Group {
	rest := groups[:0]
	for _, other := range groups {
		if !slices.ContainsFunc(other.Targets, func(name string) bool { return slices.Contains(g.Targets, name) }) {
			rest = append(rest, other)
			continue
		}
		g.Targets = append(g.Targets, other.Targets...)
		g.Sources = append(other.Sources, g.Sources...)
		g.Units = append(other.Units, g.Units...)
		g.Uncounted = cmp.Or(g.Uncounted, other.Uncounted, shared)
	}
	slices.Sort(g.Targets)
	g.Targets = slices.Compact(g.Targets)
	return append(rest, g)
}

// Held describes what a target holds under a name.
type Held struct {
	Absent    bool  // there is nothing of that name
	Documents int64 // about how many
	// NotComparable is why sources of the target are not what was sent, "" when they are. Ids are compared then.
	NotComparable string
	Units         []Unit
}

// Target is the cluster that documents were sent to.
type Target interface {
	// Look returns what is held under a name.
	Look(ctx context.Context, name string) (Held, error)
	// Count returns the number of Lucene documents that live under a name, nested ones included, without their replicas.
	Count(ctx context.Context, name string) (n int64, there bool, err error)
}

// Options of a Verifier; zero values mean the defaults named there.
type Options struct {
	Target Target
	Sample Sample
	Failed *Failed // nil: none
	// Store keeps what units with keys hold; nil: nothing is kept.
	Store Store
	// Names bounds the differences that are named for each target index; 1000. The others are counted by bucket.
	Names int
	// Readers bounds the units of each side that are read at the same time; 2.
	Readers int
	// Tries bounds the attempts at a unit of the target that is unavailable; 5.
	Tries int
	// Pause waits between attempts. It is needed when a target can be unavailable.
	Pause func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Verifier compares groups. It is safe for concurrent use.
type Verifier struct {
	Options
	sources, targets chan struct{} // one place per unit that is read
	naming           sync.Mutex    // held while documents are named, which takes memory
	read             [2]atomic.Int64
	size             [2]atomic.Int64
}

// New makes a Verifier.
func New(o Options) *Verifier {
	if o.Names <= 0 {
		o.Names = 1000
	}
	if o.Readers <= 0 {
		o.Readers = 2
	}
	if o.Tries <= 0 {
		o.Tries = 5
	}
	if o.Failed == nil {
		o.Failed = &Failed{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Verifier{Options: o, sources: make(chan struct{}, o.Readers), targets: make(chan struct{}, o.Readers)}
}

// Progress counts what was read so far.
type Progress struct{ SourceDocuments, SourceBytes, TargetDocuments, TargetBytes int64 }

// Progress returns what was read so far, also a second time.
func (v *Verifier) Progress() Progress {
	return Progress{v.read[ofSource].Load(), v.size[ofSource].Load(), v.read[ofTarget].Load(), v.size[ofTarget].Load()}
}

// The two sides.
const (
	ofSource = iota
	ofTarget
)

// comparison is one target index in work.
type comparison struct {
	result *Index
	held   Held
	mu     sync.Mutex
	sides  [2]*table
}

// Compare compares all groups and returns their target indices, sorted by name. Errors are those that leave the result
// unknown: a target or repository that does not answer. What cannot be read for ever is part of the result.
func (v *Verifier) Compare(ctx context.Context, groups []Group) ([]*Index, error) {
	var mu sync.Mutex
	var all []*Index
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(v.Readers)
	for _, group := range groups {
		g.Go(func() error {
			found, err := v.group(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *Index) int { return strings.Compare(a.Target, b.Target) })
	return all, nil
}

// group compares one group: both sides are read side by side, then what differs is named.
func (v *Verifier) group(ctx context.Context, group Group) ([]*Index, error) {
	all := map[string]*comparison{}
	var results []*Index
	for _, name := range group.Targets {
		held, err := v.Target.Look(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("target index %s: %w", name, err)
		}
		c := &comparison{held: held, result: &Index{Target: name, Sources: group.Sources, NotComparable: held.NotComparable}}
		if held.Absent {
			c.result.Note = "the target has no index of this name"
		}
		buckets := bucketsFor(held.Documents)
		c.sides = [2]*table{newTable(buckets), newTable(buckets)}
		all[name], results = c, append(results, c.result)
	}
	problems, err := v.firstReading(ctx, group, all)
	if err != nil {
		return nil, err
	}
	for _, name := range group.Targets {
		c := all[name]
		c.result.Problems = problems
		if err := v.settle(ctx, group, c); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// firstReading fills the tables of both sides. It returns what cannot be read.
func (v *Verifier) firstReading(ctx context.Context, group Group, all map[string]*comparison) (problems []string, err error) {
	var mu sync.Mutex
	unreadable := func(u Unit, err error) error {
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) && !errors.Is(err, fault.ErrRejected) {
			return err
		}
		v.Log.WarnContext(ctx, "a part cannot be read", "unit", u.Name, "error", err)
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, fault.Text(err))
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, u := range group.Units {
		g.Go(func() error {
			return unreadable(u, v.sourceUnit(ctx, u, all))
		})
	}
	for _, c := range all {
		for _, u := range c.held.Units {
			g.Go(func() error { return unreadable(u, v.targetUnit(ctx, u, c)) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(problems)
	return problems, nil
}

// tallied is what one unit adds to one target index.
type tallied struct {
	index    string
	table    *table
	filtered int64
	failed   int64
	unsent   map[string]int64
}

func (v *Verifier) sourceUnit(ctx context.Context, u Unit, all map[string]*comparison) error {
	key := v.keyOf(ofSource, u, all)
	if found := v.kept(ofSource, u, key, all); found != nil {
		for name, t := range found {
			all[name].take(ofSource, t)
		}
		return nil
	}
	found := map[string]*tallied{}
	h := newHasher()
	err := v.readUnit(ctx, ofSource, u, func() func(*Document) error {
		clear(found)
		return func(d *Document) error {
			t := found[string(d.Index)]
			if t == nil {
				c := all[string(d.Index)]
				if c == nil {
					return fmt.Errorf("%s, ordinal %d: the document goes to %q, which is none of its target indices: %w", u.Name, d.Ordinal, d.Index, fault.ErrUnsupported)
				}
				t = &tallied{index: c.result.Target, table: newTable(len(c.sides[ofSource].buckets)), unsent: map[string]int64{}}
				found[t.index] = t
			}
			v.tally(h, t, d)
			return nil
		}
	})
	if err == nil {
		v.keep(u, key, found)
	}
	for name, t := range found {
		if err == nil || errors.Is(err, fault.ErrCorrupt) {
			all[name].take(ofSource, t)
		}
	}
	return err
}

// tally adds one document.
func (v *Verifier) tally(h *hasher, t *tallied, d *Document) {
	p := place(d.ID)
	switch {
	case d.Fate == Filtered:
		t.filtered++
	case d.Fate == Unsent:
		t.unsent[d.Reason]++
	case !v.Sample.has(p):
	case v.Failed.has(t.index, d.ID):
		t.failed++
	default:
		t.table.add(p, h.digest(d), len(d.Source))
	}
}

func (v *Verifier) targetUnit(ctx context.Context, u Unit, c *comparison) error {
	of := map[string]*comparison{c.result.Target: c}
	key := v.keyOf(ofTarget, u, of)
	if t := v.kept(ofTarget, u, key, of)[c.result.Target]; t != nil {
		c.take(ofTarget, t)
		return nil
	}
	var t *tallied
	h := newHasher()
	err := v.readUnit(ctx, ofTarget, u, func() func(*Document) error {
		t = &tallied{index: c.result.Target, table: newTable(len(c.sides[ofTarget].buckets))}
		return func(d *Document) error {
			v.tally(h, t, d)
			return nil
		}
	})
	if err == nil {
		v.keep(u, key, map[string]*tallied{t.index: t})
		c.take(ofTarget, t)
	}
	return err
}

// take adds what a unit holds.
func (c *comparison) take(side int, t *tallied) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sides[side].merge(t.table)
	if side == ofTarget {
		c.result.FailedThere += t.failed
		return
	}
	c.result.Failed += t.failed
	c.result.Filtered += t.filtered
	for reason, n := range t.unsent {
		if c.result.Unsent == nil {
			c.result.Unsent = map[string]int64{}
		}
		c.result.Unsent[reason] += n
	}
}

// readUnit reads a unit when its side has a place free. A unit of the target that is unavailable is read again from its
// beginning; begin is called before each attempt.
func (v *Verifier) readUnit(ctx context.Context, side int, u Unit, begin func() func(*Document) error) error {
	places := v.sources
	if side == ofTarget {
		places = v.targets
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for try := 1; ; try++ {
		each := begin()
		err := u.Read(ctx, func(d *Document) error {
			v.read[side].Add(1)
			v.size[side].Add(int64(len(d.Source)))
			return each(d)
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case side == ofSource || try == v.Tries || !errors.Is(err, fault.ErrUnavailable):
			return fmt.Errorf("%s: %w", u.Name, err)
		}
		v.Log.WarnContext(ctx, "target is read again", "unit", u.Name, "attempt", try, "error", err)
		if err := v.Pause(ctx, time.Second<<min(try, 5)); err != nil {
			return err
		}
	}
}
