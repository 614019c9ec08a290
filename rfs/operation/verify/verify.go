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
	Index       []byte // its target index; ignored on the target's side
	ID, Routing []byte
	Source      []byte
	Shard       int   // of the source
	Ordinal     int64 // of the source
	Fate        Fate
	Reason      string // why it is not sent
	// Version is the highest version that the last round can have given the target's document; only Changes uses it.
	Version int64
	// Since states that the target's document was written after the migration.
	Since bool
}

// Fate is the result of the migration for a document.
type Fate uint8

// The fates.
const (
	Sent     Fate = iota
	Filtered      // left out by rules of the user
	Unsent        // it cannot be sent, because of Reason
	Gone          // the target must not have it any more; only in Changes
)

// Unit is a part of one side, such as a shard. Units of one side have no document in common.
type Unit struct {
	Name string
	// Key identifies the content of the unit: units with the same key always have the same content. "" means that the content may change.
	Key  string
	Size int64 // in bytes, if known without reading; part of the identity of the source
	// Read calls each with every document from an ordinal, in order; from is 0 for units of the target. It may be
	// repeated. An error of each ends it and is returned.
	Read func(ctx context.Context, from int64, each func(*Document) error) error
	// Count returns the number of live Lucene documents, including nested ones. Only units of the source need it.
	Count func(ctx context.Context) (int64, error)
}

// Group is a set of target indices and all sources that send documents to them.
type Group struct {
	Targets []string // names, sorted
	Sources []string // names of the sources, for the report
	Units   []Unit
	// Uncounted is the reason why the numbers of documents of both sides may differ, "" if they may not.
	Uncounted string
}

// Join adds a group to groups, and merges it with the groups that share a target with it. shared is then the Uncounted of the merged
// group, unless one of the groups has a reason of its own.
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

// Content describes the content of a target under a name.
type Content struct {
	Absent    bool  // the name does not exist
	Documents int64 // approximate number
	// NotComparable is the reason why sources of the target differ from the sent ones, "" if they do not. If it is set, only ids are compared.
	NotComparable string
	Units         []Unit
}

// Target is the cluster that documents were sent to.
type Target interface {
	// Content returns the content under a name.
	Content(ctx context.Context, name string) (Content, error)
	// Count returns the number of live Lucene documents under a name, including nested ones, without replicas; false if the name does
	// not exist.
	Count(ctx context.Context, name string) (n int64, there bool, err error)
}

// Key names a document of the target.
type Key struct{ Index, ID, Routing string }

// Found is the target's document for a key.
type Found struct {
	There   bool
	Version int64
	Routing string
	Source  []byte
}

// Options of a Verifier; zero values mean the defaults named there.
type Options struct {
	Target Target
	// Find returns documents of the target in the order of their keys, including documents that are not yet visible to searches; only
	// Changes needs it.
	Find   func(ctx context.Context, keys []Key) ([]Found, error)
	Work   Work // not needed by Count and Changes
	Sample Sample
	Failed *Failed // nil: none
	// Names is the maximum number of named differences per target index; 1000. Further ones are counted by bucket.
	Names int
	// Readers is the maximum number of units of each side that are read concurrently; 2.
	Readers int
	// Tries is the maximum number of attempts to read a unit of an unavailable target; 5.
	Tries int
	// Pause blocks between attempts; nil: the clock of Work.
	Pause func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Verifier compares groups. It is safe for concurrent use.
type Verifier struct {
	Options
	sources, targets chan struct{} // semaphores for the units being read
	naming           chan struct{} // mutex, since naming documents takes memory
	read             [2]atomic.Int64
	size             [2]atomic.Int64
}

// New returns a Verifier.
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

// Progress is the numbers of documents and bytes read so far.
type Progress struct{ SourceDocuments, SourceBytes, TargetDocuments, TargetBytes int64 }

// Progress returns the numbers of documents and bytes read so far, including repeated reads.
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
	held   Content
	sides  [2]*table // nil before the first reading of all units has ended
}

// open resets the result and creates empty tables.
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
	documents int64 // all documents read
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
	p := hashID(d.ID)
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

// take adds the contribution of a part.
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

// unreadable reports whether the error is permanent, so that it is part of the result.
func unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported) || errors.Is(err, fault.ErrRejected)
}

// readUnit reads a unit when its side's semaphore is free. It retries from the start if the target is unavailable, and
// calls start before each attempt.
func (v *Verifier) readUnit(ctx context.Context, side int, u Unit, from int64, start func() func(*Document) error) error {
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
		each := start()
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
