package columns

import (
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Docs is the set of documents that have a value in a column, read in pages, fastest in ascending order. It belongs to one goroutine.
type Docs struct {
	maxDoc int32
	all    bool
	none   bool
	blocks *blockSet
	old    *Reader // of Lucene 4 and 5, if the values determine it
}

// NewDocs returns the set of a column; nothing is fetched before the first Fill.
func (e *Entry) NewDocs(data Data, maxDoc int32) (*Docs, error) {
	d := &Docs{maxDoc: maxDoc}
	if d.all, d.none = e.Everywhere(maxDoc); d.all || d.none {
		return d, nil
	}
	var err error
	if e.old != nil {
		d.old, err = e.NewReader(data, maxDoc)
	} else {
		d.blocks, err = e.blockSet(data, maxDoc)
	}
	return d, err
}

// blockSet returns the set of a column of Lucene 7 and later in which some documents have a value.
func (e *Entry) blockSet(data Data, maxDoc int32) (*blockSet, error) {
	s := e.set
	if s.off < 0 || s.size < 0 || s.off > data.Size() || s.size > data.Size()-s.off || e.Docs > int64(maxDoc) {
		return nil, codec.Errorf(-1, "column of %d documents of %d, the set at %d", e.Docs, maxDoc, s.off)
	}
	return newBlockSet(e, data, maxDoc), nil
}

// Fill sets the bits of the documents that have a value and clears the others: document d is bit d%64 of word (d-from)/64. from must be a
// multiple of 64. Once the last documents have been filled after all others, the whole set has been checked.
func (d *Docs) Fill(ctx context.Context, from int32, words []uint64) error {
	clear(words)
	end := min(int64(from)+64*int64(len(words)), int64(d.maxDoc))
	switch {
	case d.none:
	case d.all:
		for doc := int64(from); doc < end; doc += 64 {
			words[(doc-int64(from))>>6] = ^uint64(0)
		}
		if k := end & 63; k != 0 && end > int64(from) {
			words[(end-1-int64(from))>>6] = 1<<k - 1
		}
	case d.old != nil:
		for doc := int64(from); doc < end; doc++ {
			n, err := d.old.Advance(ctx, int32(doc))
			if err != nil {
				return err
			}
			if n > 0 {
				words[(doc-int64(from))>>6] |= 1 << (doc & 63)
			}
		}
	default:
		return d.copyBlocks(ctx, from, end, words)
	}
	return nil
}

func (d *Docs) copyBlocks(ctx context.Context, from int32, end int64, words []uint64) error {
	for doc := int64(from); doc < end; {
		b := int32(doc >> 16)
		if err := d.blocks.open(ctx, b); err != nil {
			return err
		}
		to := min((doc>>16+1)<<16, (end+63)&^63)
		if d.blocks.block == b {
			copy(words[(doc-int64(from))>>6:(to-int64(from))>>6], d.blocks.words[doc&(setBlock-1)>>6:])
		}
		doc = to
	}
	if end < int64(d.maxDoc) {
		return ctx.Err()
	}
	return d.blocks.open(ctx, setSentinel)
}
