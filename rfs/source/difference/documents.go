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
	Unchanged int64 `json:"unchanged"` // in segments of both commits; includes nested documents in indices created before Elasticsearch 6.1
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
// versions take at most the memory of a pass; if they need more, all is read once per part of them. It returns the same errors as Read.
func (r *Reader) Documents(ctx context.Context) (*Documents, error) {
	p, err := r.Pair(ctx, true)
	if err != nil {
		return nil, err
	}
	return p.Documents, nil
}

// readAll reads the documents that changed, once for each part of the ids of gone versions.
func (r *Reader) readAll(ctx context.Context, d *Documents, parts int64) error {
	for at := range parts {
		p, err := r.pair(ctx, d, at, parts)
		if err == nil {
			err = records(ctx, r.to.Reader(lucene.ReadOptions{Only: d.Changed.Any}), func(rec *lucene.Record) error {
				p.See(rec)
				return nil
			})
		}
		if err != nil {
			return err
		}
		p.End()
	}
	return nil
}

// versions returns the new and the gone versions, without matching them by id, and the number of gone ones.
func (r *Reader) versions(ctx context.Context) (d *Documents, gone int64, err error) {
	d = &Documents{Changed: newOrdinals(r.to.MaxOrdinal), Gone: newOrdinals(r.from.MaxOrdinal)}
	n, err := r.Read(ctx, Start, func(c Change) error {
		if c.Gone {
			d.Gone.add(c.Ordinal)
		} else {
			d.Changed.add(c.Ordinal)
		}
		return nil
	}, func(int64) error { return nil })
	if err != nil {
		return nil, 0, err
	}
	d.Unchanged, d.Deleted = n.Unchanged, newOrdinals(r.from.MaxOrdinal)
	return d, n.Gone, nil
}

// parts returns the number of parts that the ids of gone versions are divided into. Each takes at most the memory of a pass.
func (r *Reader) parts(gone int64) int64 { return gone*digestMemory/r.memory + 1 }

// Pairing determines whether changed documents are updated, inserted or deleted, while its caller reads the changed ones, so that they are
// read only once. Deleted and the totals of its Documents are valid after End.
type Pairing struct {
	*Documents
	Every     bool             // nothing was compared: all documents of to changed, and all of from are gone
	at, parts int64            // the part of the ids
	was       map[digest]int64 // ordinals of gone versions by id, without the ids of changed documents seen so far
}

// Pair returns the documents that changed; its caller passes each document of Changed to See. With complete, or if the ids of gone versions
// take more than the memory of a pass, Pair reads the changed documents itself; then See and End do nothing. It returns the same errors as
// Read.
func (r *Reader) Pair(ctx context.Context, complete bool) (*Pairing, error) {
	d, gone, err := r.versions(ctx)
	if err != nil {
		return nil, err
	}
	if parts := r.parts(gone); complete || parts > 1 {
		return &Pairing{Documents: d}, r.readAll(ctx, d, parts)
	}
	return r.pair(ctx, d, 0, 1)
}

// Everything returns the pairing of two commits whose documents are not compared.
func Everything(from, to *lucene.Commit) *Pairing {
	gone := Every(from.MaxOrdinal)
	return &Pairing{Documents: &Documents{Changed: Every(to.MaxOrdinal), Gone: gone, Deleted: gone}, Every: true}
}

// pair reads the ids of a part of the gone versions.
func (r *Reader) pair(ctx context.Context, d *Documents, at, parts int64) (*Pairing, error) {
	p := &Pairing{Documents: d, at: at, parts: parts, was: map[digest]int64{}}
	err := records(ctx, r.from.Reader(lucene.ReadOptions{Only: d.Gone.Any}), func(rec *lucene.Record) error {
		if id := idOf(rec); id.part(parts) == at {
			p.was[id] = rec.Ordinal
		}
		return nil
	})
	return p, err
}

// See records a changed document.
func (p *Pairing) See(rec *lucene.Record) {
	if p.was == nil {
		return
	}
	id := idOf(rec)
	if id.part(p.parts) != p.at {
		return
	}
	if _, ok := p.was[id]; ok {
		delete(p.was, id)
		p.Updated++
		return
	}
	p.Inserted++
}

// End must be called after every changed document was seen.
func (p *Pairing) End() {
	for _, ordinal := range p.was {
		p.Documents.Deleted.add(ordinal)
		p.Totals.Deleted++
	}
	p.was = nil
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

func (s Ordinals) remove(ordinal int64) { s[ordinal>>6] &^= 1 << (ordinal & 63) }

func (s Ordinals) has(ordinal int64) bool { return s[ordinal>>6]>>(ordinal&63)&1 != 0 }

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
