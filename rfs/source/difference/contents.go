package difference

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// digest identifies an id, or a document: a part of a SHA-256, so that a sender cannot construct two documents with the same digest.
type digest [16]byte

// part returns the number of the part, from 0 to of-1, that a digest belongs to.
func (d digest) part(of int64) int64 { return int64(binary.BigEndian.Uint64(d[:])>>1) % of }

// digestMemory is the memory of an entry of a map of digests, in bytes.
const digestMemory = 64

// NewByContents returns a reader of the changes between the commits from and to, for shards whose numbers do not determine them. It
// compares documents by type, id, routing and source, and by their numbers if all documents have some, and reads every document of the
// segments that only one of the commits has. A pass of at most memory bytes holds a part of the documents, and each pass reads all of them
// again.
//
// Without numbers, a document that was written again with the same source is unchanged, and documents with incomplete stored sources, which
// filtered states, make Read return a *Whole. Versions of documents (_version) would not help: they start at 1 again after a deletion was
// forgotten.
func NewByContents(from, to *lucene.Commit, memory int64, filtered bool) *Reader {
	r := newReader(from, to, memory)
	r.contents, r.filtered = true, filtered
	return r
}

// Passes returns the number of times that the documents, or numbers, of the segments that only one of the commits has are read.
func (r *Reader) Passes() int64 {
	if !r.contents {
		return max(r.top[0], 0)/(r.memory*numbersPerByte) + 1
	}
	documents := int64(0)
	for s := range r.changed(r.from) {
		documents += int64(s.LiveCount)
	}
	return documents*digestMemory/r.memory + 1
}

// readContents compares the documents of the segments that only one of the commits has.
func (r *Reader) readContents(ctx context.Context, first int64, visit func(Change) error, passed func(next int64) error, n *Counts) error {
	numbered, err := r.numbered(ctx)
	if err != nil {
		return err
	}
	passes := r.Passes()
	for at := first; at < passes; at++ {
		part := func(d digest) bool { return d.part(passes) == at }
		was := map[digest]int64{}
		err := r.eachDocument(ctx, r.from, numbered, func(ordinal int64, d digest) error {
			if !part(d) {
				return nil
			}
			if _, twice := was[d]; twice {
				return &Whole{NotUnique}
			}
			was[d] = ordinal
			return nil
		})
		if err != nil {
			return err
		}
		err = r.eachDocument(ctx, r.to, numbered, func(ordinal int64, d digest) error {
			if !part(d) {
				return nil
			}
			if _, ok := was[d]; ok {
				delete(was, d)
				n.Unchanged++
				return nil
			}
			n.New++
			return visit(Change{Ordinal: ordinal})
		})
		if err != nil {
			return err
		}
		for _, ordinal := range slices.Sorted(maps.Values(was)) {
			n.Gone++
			if err := visit(Change{Gone: true, Ordinal: ordinal}); err != nil {
				return err
			}
		}
		if at+1 < passes {
			if err := passed(at + 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbered reports whether numbers distinguish the versions of a document: both commits have the same history, and all segments to read
// have numbers.
func (r *Reader) numbered(ctx context.Context) (bool, error) {
	if history := r.from.UserData["history_uuid"]; history == "" || history != r.to.UserData["history_uuid"] {
		return false, nil
	}
	for _, c := range []*lucene.Commit{r.from, r.to} {
		for s := range r.changed(c) {
			if _, err := s.Roots(ctx, true); errors.Is(err, fault.ErrUnsupported) {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// changed yields the segments of a commit that the other one lacks and that have live documents.
func (r *Reader) changed(c *lucene.Commit) iter.Seq[*lucene.Segment] {
	return func(yield func(*lucene.Segment) bool) {
		for _, s := range c.Segments {
			if r.same[s.ID()] == nil && s.LiveCount > 0 && !yield(s) {
				return
			}
		}
	}
}

// eachDocument calls f for the live root documents of a commit in segments that the other commit lacks.
func (r *Reader) eachDocument(ctx context.Context, c *lucene.Commit, numbered bool, f func(ordinal int64, d digest) error) error {
	for s := range r.changed(c) {
		roots, err := s.Roots(ctx, numbered)
		if err != nil {
			return err
		}
		err = records(ctx, c.Reader(lucene.ReadOptions{From: s.Base, To: s.Base + int64(s.MaxDoc)}), func(rec *lucene.Record) error {
			if rec.IDKind == lucene.IDNone { // a nested document
				return nil
			}
			var number []byte
			if numbered {
				var err error
				if number, err = numberBytes(ctx, roots, rec.DocID); err != nil {
					return err
				}
			}
			if number == nil && (!rec.HasSource || r.filtered) {
				return &Whole{NoSources}
			}
			return f(rec.Ordinal, digestOf(idBytes(rec), rec.Routing, rec.Parent, rec.Source, number))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// numberBytes returns the number and the term of a document as bytes; nil if it has none. Documents must be requested in ascending order.
func numberBytes(ctx context.Context, roots *lucene.Roots, doc int32) ([]byte, error) {
	for {
		at, err := roots.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, fault.Corrupt("", "", -1, "document %d has an id, but not the primary term of a root document", doc)
		}
		if err != nil {
			return nil, err
		}
		if at < doc {
			continue
		}
		n, ok, err := numberOf(ctx, roots)
		if err != nil || !ok {
			return nil, err
		}
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(n.Seq)), uint64(n.Term)), nil
	}
}

// records calls f for each record of a reader and closes it.
func records(ctx context.Context, r *lucene.Reader, f func(*lucene.Record) error) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(rec)
		}
		if err != nil {
			return err
		}
	}
}

// idOf returns the digest of the identity of a document. Documents with the same id and different routing are in different shards of an
// index.
func idOf(rec *lucene.Record) digest { return digestOf(idBytes(rec), rec.Routing, rec.Parent) }

// idBytes returns the id of a document.
func idBytes(rec *lucene.Record) []byte {
	if rec.IDKind != lucene.IDSeries {
		return rec.ID
	}
	return binary.BigEndian.AppendUint64(slices.Concat(rec.RoutingHash, rec.ID), uint64(rec.Timestamp))
}

// digestOf returns the digest of parts, including their lengths.
func digestOf(parts ...[]byte) (d digest) {
	h := sha256.New()
	for _, p := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	copy(d[:], h.Sum(nil))
	return d
}
