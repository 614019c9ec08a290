package difference

import (
	"context"
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Reason explains why numbers do not determine the difference of two commits.
type Reason string

// The reasons.
const (
	// NoNumbers means that documents have no numbers: they were written before Elasticsearch 6.0, a merge dropped the numbers
	// (index.disable_sequence_numbers of Elasticsearch 9.4), or the snapshot holds sources only.
	NoNumbers Reason = "its documents have no sequence numbers"
	// NotUnique means that two documents have the same number, as in an index that was created by shrinking another.
	NotUnique Reason = "two of its documents have the same sequence number"
	// OtherHistory means that operations were renumbered between the commits: the index was restored, or a stale copy became the primary.
	OtherHistory Reason = "its history is another one: it was restored, or a stale copy became the primary"
	// Older means that the second commit is older than the first.
	Older Reason = "the second snapshot of it is older than the first"
	// NoSources means that documents have no source, or only a part of it, and no unique numbers either.
	NoSources Reason = "its documents have neither unique sequence numbers nor whole sources"
	// ManyTerms means that its numbers were assigned under more primary terms than a pass can distinguish.
	ManyTerms Reason = "its documents were written under too many primary terms"
	// Beyond means that a document has a higher number than the commit states. A commit in a remote store of OpenSearch states its local
	// checkpoint, and has documents above it if operations were indexed concurrently with the refresh.
	Beyond Reason = "its documents have higher numbers than its commit states"
)

// Whole is the error of two commits whose numbers do not determine their difference.
type Whole struct{ Reason Reason }

// Error returns the reason.
func (w *Whole) Error() string { return "the shard differs as a whole: " + string(w.Reason) }

// Change is a version of a document that only one of the commits has.
type Change struct {
	Gone    bool  // the first commit has it; else the second
	Ordinal int64 // of the document in that commit, as in lucene.Record
}

// Counts is the size of a difference in root documents.
type Counts struct {
	New       int64 // versions that only the second commit has
	Gone      int64 // versions that only the first commit has
	Unchanged int64
}

// Start is the position from which a Reader reads a whole difference.
const Start = -1

// Reader reads the difference of two commits of one shard.
type Reader struct {
	from, to *lucene.Commit
	same     map[string]*lucene.Segment // segments of from, by id, that to has as well
	memory   int64                      // of a pass, in bytes
	contents bool                       // documents are compared by their contents
	filtered bool                       // stored sources are incomplete
	top      [2]int64                   // the highest number of each commit
}

// newReader returns a reader without the numbers of the commits.
func newReader(from, to *lucene.Commit, memory int64) *Reader {
	r := &Reader{from: from, to: to, same: map[string]*lucene.Segment{}, memory: max(memory, 1)}
	kept := map[string]bool{}
	for _, s := range to.Segments {
		kept[s.ID()] = s.ID() != ""
	}
	for _, s := range from.Segments {
		if kept[s.ID()] {
			r.same[s.ID()] = s
		}
	}
	return r
}

// New returns a reader of the changes between the commits from and to. A pass holds about memory bytes, two bits for each number. It
// returns a *Whole if numbers do not determine the difference, and fault.ErrCorrupt for impossible records of a commit.
func New(from, to *lucene.Commit, memory int64) (*Reader, error) {
	r := newReader(from, to, memory)
	for i, c := range []*lucene.Commit{from, to} {
		top, ok, err := MaxSeqNo(c)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, &Whole{NoNumbers}
		}
		r.top[i] = top
	}
	if from.UserData["history_uuid"] != to.UserData["history_uuid"] {
		return nil, &Whole{OtherHistory}
	}
	if r.top[1] < r.top[0] {
		return nil, &Whole{Older}
	}
	return r, nil
}

// MaxSeqNo returns the highest sequence number of a shard, as a commit records it, -1 before its first operation. ok is false if the commit
// records none, as before Elasticsearch 6.
func MaxSeqNo(c *lucene.Commit) (n int64, ok bool, err error) {
	recorded, ok := c.UserData["max_seq_no"]
	if !ok {
		return 0, false, nil
	}
	if n, err = strconv.ParseInt(recorded, 10, 64); err != nil || n < -1 {
		return 0, false, fault.Corrupt("", c.Name, -1, "max_seq_no %q is not a sequence number", recorded)
	}
	return n, true, nil
}

// Read calls visit for each change, first in segments that both commits have, then in passes. The passes of New are ranges of numbers in
// ascending order. After each pass, once every change before it was visited, it calls passed with the position of the next pass; a later
// call continues from there. The first position is Start. Counts cover this call only.
//
// A *Whole may also be found while documents are read; the changes visited before are then void.
func (r *Reader) Read(ctx context.Context, first int64, visit func(Change) error, passed func(next int64) error) (n Counts, err error) {
	if first < 0 {
		if err := r.readSame(ctx, visit, &n); err != nil {
			return n, err
		}
		if err := passed(0); err != nil {
			return n, err
		}
	}
	read := r.readNumbers
	if r.contents {
		read = r.readContents
	}
	err = read(ctx, max(first, 0), visit, passed, &n)
	return n, err
}

// readSame compares the live documents of segments that both commits have.
func (r *Reader) readSame(ctx context.Context, visit func(Change) error, n *Counts) error {
	for _, now := range r.to.Segments {
		was := r.same[now.ID()]
		if was == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if was.MaxDoc != now.MaxDoc {
			return fault.Corrupt("", now.Name+".si", -1, "it has %d documents, and had %d before, with the same id", now.MaxDoc, was.MaxDoc)
		}
		before, err := was.Roots(ctx, false)
		if err != nil {
			return err
		}
		after, err := now.Roots(ctx, false)
		if err != nil {
			return err
		}
		live, err := next(ctx, after)
		for err == nil {
			var doc int32
			if doc, err = next(ctx, before); err != nil || doc == none {
				break
			}
			switch {
			case doc == live:
				n.Unchanged++
				live, err = next(ctx, after)
			case doc < live:
				n.Gone++
				err = visit(Change{Gone: true, Ordinal: was.Base + int64(doc)})
			default:
				err = revived(now, live)
			}
		}
		if err == nil && live != none {
			err = revived(now, live)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func revived(s *lucene.Segment, doc int32) error {
	return fault.Corrupt("", s.Name+".si", -1, "document %d lives, and was deleted before", doc)
}

// none is the document after the last.
const none = math.MaxInt32

// next returns the next live root document, or none.
func next(ctx context.Context, r *lucene.Roots) (int32, error) {
	doc, err := r.Next(ctx)
	if errors.Is(err, io.EOF) {
		return none, nil
	}
	return doc, err
}
