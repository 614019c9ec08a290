package difference

import (
	"context"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Totals is the size of a difference in documents, distinguished by id and routing.
type Totals struct {
	Inserted  int64 `json:"inserted"`  // only the second commit has a document of its id and routing
	Updated   int64 `json:"updated"`   // the second commit has another version of it
	Deleted   int64 `json:"deleted"`   // only the first commit has a document of its id and routing
	Unchanged int64 `json:"unchanged"` // of segments that both commits have, nested documents as well where none has a primary term (before Elasticsearch 6.1)
}

// Add returns the sum.
func (t Totals) Add(o Totals) Totals {
	return Totals{Inserted: t.Inserted + o.Inserted, Updated: t.Updated + o.Updated, Deleted: t.Deleted + o.Deleted, Unchanged: t.Unchanged + o.Unchanged}
}

// Documents holds the documents that differ, as sets of ordinals: one bit for each document of both commits.
type Documents struct {
	Totals
	Changed Ordinals // of the second commit: inserted and updated documents
	Gone    Ordinals // of the first: their former versions, and deleted documents
	Deleted Ordinals // of Gone
}

// Documents returns the documents that changed. It reads the chunks of stored fields that hold new or gone versions. The ids of gone
// versions take at most the memory of a pass; if there are more, all is read once for each part of them. It returns the same errors as
// Read.
func (r *Reader) Documents(ctx context.Context) (*Documents, error) {
	d := &Documents{Changed: newOrdinals(r.to.MaxOrdinal), Gone: newOrdinals(r.from.MaxOrdinal), Deleted: newOrdinals(r.from.MaxOrdinal)}
	n, err := r.Read(ctx, Start, func(c Change) error {
		if c.Gone {
			d.Gone.add(c.Ordinal)
		} else {
			d.Changed.add(c.Ordinal)
		}
		return nil
	}, func(int64) error { return nil })
	if err != nil {
		return nil, err
	}
	d.Unchanged = n.Unchanged
	for at, parts := int64(0), n.Gone*digestMemory/r.memory+1; at < parts; at++ {
		part := func(id digest) bool { return id.part(parts) == at }
		was := map[digest]int64{} // ordinals of gone versions by id
		err := records(ctx, r.from.Reader(lucene.ReadOptions{Only: d.Gone.Any}), func(rec *lucene.Record) error {
			if id := idOf(rec); part(id) {
				was[id] = rec.Ordinal
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = records(ctx, r.to.Reader(lucene.ReadOptions{Only: d.Changed.Any}), func(rec *lucene.Record) error {
			id := idOf(rec)
			if !part(id) {
				return nil
			}
			if _, ok := was[id]; ok {
				delete(was, id)
				d.Updated++
				return nil
			}
			d.Inserted++
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, ordinal := range was {
			d.Deleted.add(ordinal)
			d.Totals.Deleted++
		}
	}
	return d, nil
}

// Ordinals is a set of ordinals of a commit.
type Ordinals []uint64

func newOrdinals(n int64) Ordinals { return make(Ordinals, (n+63)/64) }

// Every returns the set of all ordinals below n.
func Every(n int64) Ordinals {
	s := newOrdinals(n)
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

func (s Ordinals) add(ordinal int64) { s[ordinal>>6] |= 1 << (ordinal & 63) }

// Any reports whether an ordinal of [from, to) is in the set.
func (s Ordinals) Any(from, to int64) bool {
	for from < to {
		word := s[from>>6] >> (from & 63)
		if word != 0 {
			return from+int64(bits.TrailingZeros64(word)) < to
		}
		from = (from | 63) + 1
	}
	return false
}
