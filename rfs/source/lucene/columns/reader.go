package columns

import (
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// blobs describes the location of the values of a binary column: in sequence, or in chunks.
type blobs struct {
	off, size         int64
	shortest, longest int32
	addresses         *sequence // nil: all values have the same length
	chunks            *chunks   // nil: the values are not compressed
}

// maxBinary bounds the length of one binary value.
const maxBinary = 256 << 20

// Reader returns the values of a column document by document, fastest in ascending order. It belongs to one goroutine.
type Reader struct {
	e      *Entry
	maxDoc int32
	data   Data

	docs   presence // the documents that have a value; nil: all or none
	doc    int32
	begin  int64 // of the document's values
	count  int
	opened bool

	numbers   *numberReader
	addresses *sequenceReader
	terms     *termReader
	bytes     *view
	places    *sequenceReader // of binary values
	chunks    *chunkReader
	old       *oldTermReader
	set       []int64 // the values of the document if they come from a table
}

// NewReader returns a Reader of the column of a segment of maxDoc documents; data is its .dvd file. Nothing is fetched before the first
// Advance. It returns an error if the form of the column is unknown.
func (e *Entry) NewReader(data Data, maxDoc int32) (*Reader, error) {
	if e.err != nil {
		return nil, e.err
	}
	r := &Reader{e: e, maxDoc: maxDoc, data: data}
	ordinals := int64(0)
	if e.terms != nil {
		r.terms = newTermReader(e.terms, data)
		ordinals = e.terms.n
		if rg := e.numbers.ranges; rg != nil && rg.meta.Len()-1 != ordinals {
			return nil, codec.Errorf(e.numbers.off, "%d ranges of %d ordinals", rg.meta.Len()-1, ordinals)
		}
	}
	if e.old != nil && e.old.terms != nil {
		r.old = newOldTermReader(e.old.terms, data)
	}
	if b := e.blobs; b != nil {
		if b.chunks != nil {
			r.chunks = newChunkReader(b, data)
			return r, nil
		}
		r.bytes = newView(data, b.off, b.size)
		if b.addresses != nil {
			r.places = newSequenceReader(b.addresses, data)
		}
		return r, nil
	}
	r.numbers = newNumberReader(&e.numbers, data, e.le, ordinals)
	if e.addresses != nil {
		r.addresses = newSequenceReader(e.addresses, data)
	}
	return r, nil
}

// Everywhere reports whether all of maxDoc documents have a value, and whether none has; if neither, the set must be read.
func (e *Entry) Everywhere(maxDoc int32) (all, none bool) {
	if e.old != nil {
		return e.old.everywhere(e, maxDoc)
	}
	return e.set.off == setAll && e.Docs == int64(maxDoc), e.set.off == setNone && e.Docs == 0
}

// Advance moves to a document and returns the number of its values.
func (r *Reader) Advance(ctx context.Context, doc int32) (int, error) {
	if doc < 0 || doc >= r.maxDoc {
		return 0, codec.Errorf(-1, "document %d of %d", doc, r.maxDoc)
	}
	if r.e.old != nil {
		return r.advanceOld(ctx, doc)
	}
	if err := r.open(); err != nil {
		return 0, err
	}
	r.doc, r.count = doc, 0
	place := int64(doc)
	if _, none := r.e.Everywhere(r.maxDoc); none {
		return 0, nil
	}
	if r.docs != nil {
		has, rank, err := r.docs.seek(ctx, doc)
		if err != nil || !has {
			return 0, err
		}
		place = rank
	}
	if r.addresses == nil {
		r.begin, r.count = place, 1
		return 1, nil
	}
	limit := r.e.Values
	if limit < 0 {
		limit = 1 << 62
	}
	from, to, err := r.addresses.pair(ctx, place, limit)
	if err != nil {
		return 0, err
	}
	if to-from > 1<<31-1 {
		return 0, codec.Errorf(r.addresses.off, "document %d has %d values", doc, to-from)
	}
	r.begin, r.count = from, int(to-from)
	return r.count, nil
}

// open opens the set of documents.
func (r *Reader) open() error {
	if r.opened {
		return nil
	}
	if all, none := r.e.Everywhere(r.maxDoc); !all && !none {
		set, err := r.e.blockSet(r.data, r.maxDoc)
		if err != nil {
			return err
		}
		r.docs = set
	}
	r.opened = true
	return nil
}

// Number returns value i of the document: a number, or an ordinal in sorted columns.
func (r *Reader) Number(ctx context.Context, i int) (int64, error) {
	if i < 0 || i >= r.count || r.numbers == nil {
		return 0, codec.Errorf(-1, "value %d of %d of document %d", i, r.count, r.doc)
	}
	if r.set != nil {
		return r.set[i], nil
	}
	return r.numbers.at(ctx, r.begin+int64(i), r.doc)
}

// Bytes returns value i of the document in a sorted or binary column, valid until the next call.
func (r *Reader) Bytes(ctx context.Context, i int) ([]byte, error) {
	if r.terms != nil || r.old != nil {
		ordinal, err := r.Number(ctx, i)
		switch {
		case err != nil:
			return nil, err
		case r.old != nil:
			return r.old.at(ctx, ordinal)
		}
		return r.terms.at(ctx, ordinal)
	}
	if r.chunks != nil && i == 0 && r.count == 1 {
		return r.chunks.at(ctx, r.begin)
	}
	if i != 0 || r.count != 1 || r.bytes == nil {
		return nil, codec.Errorf(-1, "bytes %d of %d of document %d", i, r.count, r.doc)
	}
	return r.e.blobs.at(ctx, r.bytes, r.places, r.begin)
}

// Shrink releases the memory of long values, which are read again when needed.
func (r *Reader) Shrink() {
	r.bytes.shrink()
	r.chunks.shrink()
	if r.terms != nil {
		r.terms.data.shrink()
	}
	if r.old != nil {
		r.old.data.shrink()
	}
}
