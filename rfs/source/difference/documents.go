package difference

import (
	"context"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Kind describes what became of a document.
type Kind string

// The kinds.
const (
	Inserted Kind = "inserted" // only the second commit has a document of its id and routing
	Updated  Kind = "updated"  // the second commit has another version of it
	Deleted  Kind = "deleted"  // only the first commit has a document of its id and routing
)

// Document is a document that changed.
type Document struct {
	Kind Kind
	// Record is the document in the second commit; of a deleted one, in the first. It is valid until the visit ends.
	Record *lucene.Record
}

// Totals is the size of a difference in documents.
type Totals struct {
	Inserted  int64
	Updated   int64
	Deleted   int64
	Unchanged int64 // of segments that both commits have, nested documents as well where none has a primary term (before Elasticsearch 6.1)
}

// Documents calls visit for each document that changed. It reads the chunks of stored fields that hold new or gone versions, and the
// chunks with deleted documents twice. The ids of gone versions take at most the memory of a pass; if there are more, all is read once
// for each part of them. In addition, it holds one bit for each document of both commits. It returns the same errors as Read.
func (r *Reader) Documents(ctx context.Context, visit func(Document) error) (t Totals, err error) {
	gone, added := newSet(r.from.MaxOrdinal), newSet(r.to.MaxOrdinal)
	n, err := r.Read(ctx, Start, func(c Change) error {
		if c.Gone {
			gone.add(c.Ordinal)
		} else {
			added.add(c.Ordinal)
		}
		return nil
	}, func(int64) error { return nil })
	if err != nil {
		return t, err
	}
	t.Unchanged = n.Unchanged
	for at, parts := int64(0), n.Gone*digestMemory/r.memory+1; at < parts; at++ {
		part := func(id digest) bool { return id.part(parts) == at }
		was := map[digest]int64{} // ordinals of gone versions by id
		err := records(ctx, r.from.Reader(lucene.ReadOptions{Only: gone.any}), func(rec *lucene.Record) error {
			if id := idOf(rec); part(id) {
				was[id] = rec.Ordinal
			}
			return nil
		})
		if err != nil {
			return t, err
		}
		err = records(ctx, r.to.Reader(lucene.ReadOptions{Only: added.any}), func(rec *lucene.Record) error {
			id := idOf(rec)
			if !part(id) {
				return nil
			}
			if _, ok := was[id]; ok {
				delete(was, id)
				t.Updated++
				return visit(Document{Updated, rec})
			}
			t.Inserted++
			return visit(Document{Inserted, rec})
		})
		if err != nil {
			return t, err
		}
		deleted := newSet(r.from.MaxOrdinal)
		for _, ordinal := range was {
			deleted.add(ordinal)
		}
		err = records(ctx, r.from.Reader(lucene.ReadOptions{Only: deleted.any}), func(rec *lucene.Record) error {
			t.Deleted++
			return visit(Document{Deleted, rec})
		})
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// set is a set of ordinals.
type set []uint64

func newSet(n int64) set { return make(set, (n+63)/64) }

func (s set) add(ordinal int64) { s[ordinal>>6] |= 1 << (ordinal & 63) }

// any reports whether an ordinal of [from, to) is in the set.
func (s set) any(from, to int64) bool {
	for from < to {
		word := s[from>>6] >> (from & 63)
		if word != 0 {
			return from+int64(bits.TrailingZeros64(word)) < to
		}
		from = (from | 63) + 1
	}
	return false
}
