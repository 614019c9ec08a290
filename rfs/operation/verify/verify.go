package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
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
	// Version is the highest version that the target's document has if the last round sent it; only Changes uses it.
	Version int64
	// Since reports that the target's document was written after the migration.
	Since bool
}

// Fate is the result of the migration for a document.
type Fate uint8

// The fates.
const (
	Sent     Fate = iota
	Filtered      // left out by rules of the user
	Unsent        // it cannot be sent, for Reason
	Gone          // the target must not have it any more; only in Changes
)

// Unit is a part of one side that is read in one go, such as a shard. Units of one side have no document in common.
type Unit struct {
	Name string
	// Key identifies the content of the unit: units with the same key always have the same content. "" means that the content may change.
	Key  string
	Size int64 // in bytes, where it is known without reading; part of what the source is recognised by
	// Read calls each with every document from an ordinal on, in their order; from is 0 for units of the target. It may be
	// repeated. An error of each ends it and is returned.
	Read func(ctx context.Context, from int64, each func(*Document) error) error
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
	// NotComparable is the reason why sources of the target differ from the sent ones, "" if they do not. If it is set, only ids are compared.
	NotComparable string
	Units         []Unit
}

// Target is the cluster that documents were sent to.
type Target interface {
	// Look returns the object held under a name.
	Look(ctx context.Context, name string) (Held, error)
	// Count returns the number of Lucene documents that live under a name, nested ones included, without their replicas.
	Count(ctx context.Context, name string) (n int64, there bool, err error)
}

// Key names a document of the target.
type Key struct{ Index, ID, Routing string }

// Found describes the document that the target has for a key.
type Found struct {
	There   bool
	Version int64
	Routing string
	Source  []byte
}

// Options of a Verifier; zero values mean the defaults named there.
type Options struct {
	Target Target
	// Find returns documents of the target in the order of their keys, also those that searches do not find yet; only Changes needs it.
	Find   func(ctx context.Context, keys []Key) ([]Found, error)
	Work   Work // Count and Changes do without
	Sample Sample
	Failed *Failed // nil: none
	// Names bounds the differences that are named for each target index; 1000. The others are counted by bucket.
	Names int
	// Readers bounds the units of each side that are read at the same time; 2.
	Readers int
	// Tries bounds the attempts at a unit of the target that is unavailable; 5.
	Tries int
	// Pause waits between attempts; nil: the clock of Work does.
	Pause func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Verifier compares groups. It is safe for concurrent use.
type Verifier struct {
	Options
	sources, targets chan struct{} // one place per unit that is read
	naming           chan struct{} // one place, since naming documents takes memory
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
	if o.Pause == nil && o.Work.Clock != nil {
		o.Pause = o.Work.Clock.Sleep
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Verifier{Options: o, sources: make(chan struct{}, o.Readers), targets: make(chan struct{}, o.Readers), naming: make(chan struct{}, 1)}
}

// Progress holds the documents and bytes read so far.
type Progress struct{ SourceDocuments, SourceBytes, TargetDocuments, TargetBytes int64 }

// Progress returns the documents and bytes read so far, including repeated reads.
func (v *Verifier) Progress() Progress {
	return Progress{v.read[ofSource].Load(), v.size[ofSource].Load(), v.read[ofTarget].Load(), v.size[ofTarget].Load()}
}

// The two sides.
const (
	ofSource = iota
	ofTarget
)

// comparison is the comparison of one target index.
type comparison struct {
	result *Index
	held   Held
	sides  [2]*table // nil before the first reading of all units has ended
}

// open makes the tables, as they are before any document is counted.
func (c *comparison) open(group Group) {
	c.result = &Index{Target: c.result.Target, Sources: group.Sources, NotComparable: c.held.NotComparable}
	if c.held.Absent {
		c.result.Note = "the target has no index of this name"
	}
	c.sides = [2]*table{newTable(), newTable()}
}

// tallied is the contribution of a part of a unit to one target index.
type tallied struct {
	index     string
	table     *table
	documents int64 // all that were read
	filtered  int64
	failed    Tally // of those that the account names as failed
	unsent    map[string]int64
}

// tallies are the contributions of a part of a unit, by target index.
type tallies map[string]*tallied

// of returns the contribution to an index, nil if the index is not compared.
func (ts tallies) of(index []byte, among map[string]*comparison) *tallied {
	t := ts[string(index)]
	if t == nil {
		c := among[string(index)]
		if c == nil {
			return nil
		}
		t = &tallied{index: c.result.Target, table: newTable(), unsent: map[string]int64{}}
		ts[t.index] = t
	}
	return t
}

// tally adds one document.
func (v *Verifier) tally(h *hasher, t *tallied, d *Document) {
	p := place(d.ID)
	t.documents++
	switch {
	case d.Fate == Filtered:
		t.filtered++
	case d.Fate == Unsent:
		t.unsent[d.Reason]++
	case v.Failed.Has(t.index, d.ID):
		t.failed.add(h.digest(d), len(d.Source))
	case !v.Sample.has(p):
	default:
		t.table.add(p, h.digest(d), len(d.Source))
	}
}

// take adds what a part holds.
func (c *comparison) take(side int, t *tallied) {
	c.sides[side].merge(t.table)
	c.result.failed[side].merge(&t.failed)
	if side == ofTarget {
		c.result.TargetDocuments += t.documents
		c.result.FailedThere += t.failed.Documents
		return
	}
	c.result.SourceDocuments += t.documents
	c.result.Failed += t.failed.Documents
	c.result.Filtered += t.filtered
	for reason, n := range t.unsent {
		if c.result.Unsent == nil {
			c.result.Unsent = map[string]int64{}
		}
		c.result.Unsent[reason] += n
	}
}

// unreadable reports whether a unit with this error stays unreadable, which is a result.
func unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported) || errors.Is(err, fault.ErrRejected)
}

// readUnit reads a unit when its side has a free place. A unit of the target that is unavailable is read again from its
// start; begin is called before each attempt.
func (v *Verifier) readUnit(ctx context.Context, side int, u Unit, from int64, begin func() func(*Document) error) error {
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
	policy := retry.Policy{Tries: v.Tries, First: 2 * time.Second, Max: 32 * time.Second, Sleep: v.Pause}
	for tries := policy.Start(); ; {
		each := begin()
		err := u.Read(ctx, from, func(d *Document) error {
			v.read[side].Add(1)
			v.size[side].Add(int64(len(d.Source)))
			return each(d)
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errHandOff):
			return err
		case side == ofSource:
			return fmt.Errorf("%s: %w", u.Name, err)
		}
		if again := tries.Again(ctx, err); again != nil {
			return fmt.Errorf("%s: %w", u.Name, again)
		}
		v.Log.WarnContext(ctx, "target is read again", "unit", u.Name, "error", err)
	}
}
