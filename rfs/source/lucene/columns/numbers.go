package columns

import (
	"context"
	"encoding/binary"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// form is the layout of a column's numbers.
type form uint8

const (
	formPacked    form = iota // min + factor * packed, or table[packed]
	formBlocks                // blocks, each with a width and a minimum of its own
	formTSDB                  // blocks of Elasticsearch's formats
	formSingle                // every number is 0
	formRanges                // ordinal k belongs to the documents from sequence[k] on
	formOldBlocks             // blocks of Lucene 4.5
)

// numbers describes the location and the form of the numbers of a column.
type numbers struct {
	form      form
	values    int64 // their number; -1: unknown
	off, size int64
	shift     int32 // blocks of 2^shift

	bits        uint8 // formPacked
	min, factor int64
	table       []int64

	blocks   *packedSequence // formOldBlocks: their number and size
	index    *sequence       // formTSDB: offsets of the blocks
	ranges   *sequence
	stages   []byte
	ordinals bool
}

// maxBlockShift bounds blocks of formBlocks; writers use 14.
const maxBlockShift = 30

/*
A block of formBlocks, of 2^shift values:

	u8 bits | i64 min | bits > 0: i32 length, that many bytes, a DirectReader array
*/

// numberReader returns the numbers of a column by index, fastest in ascending order.
type numberReader struct {
	n    *numbers
	data *view // the values
	le   bool

	index, ranges *sequenceReader
	decoder       *tsdbDecoder
	old           *oldBlockReader
	block         int64 // the current block; -1: none
	start, end    int64 // formBlocks: offsets of the block in the file
	bits          int
	min           int64
	body          int64 // offset of its packed values
	ordinal       int64 // formRanges: the ordinal returned last
	next          int64 // formRanges: the first document of the next ordinal
}

func newNumberReader(n *numbers, data Data, le bool, ordinals int64) *numberReader {
	r := &numberReader{n: n, data: newView(data, n.off, min(n.size, data.Size()-n.off)), le: le, block: -1, end: n.off}
	switch n.form {
	case formTSDB:
		if n.index != nil {
			r.index = newSequenceReader(n.index, data)
			r.decoder = newTSDBDecoder(n, ordinals)
		}
	case formRanges:
		r.ranges = newSequenceReader(n.ranges, data)
	case formOldBlocks:
		r.old = &oldBlockReader{packedSequence: n.blocks, off: n.off, data: r.data}
	}
	return r
}

// at returns number i; doc is the document that it belongs to.
func (r *numberReader) at(ctx context.Context, i int64, doc int32) (int64, error) {
	if i < 0 || r.n.values >= 0 && i >= r.n.values {
		return 0, codec.Errorf(r.n.off, "value %d of %d", i, r.n.values)
	}
	switch r.n.form {
	case formPacked:
		return r.packed(ctx, i)
	case formBlocks:
		return r.blocked(ctx, i)
	case formTSDB:
		return r.tsdb(ctx, i)
	case formRanges:
		return r.ranged(ctx, int64(doc))
	case formOldBlocks:
		v, err := r.old.at(ctx, i)
		return r.n.min + r.n.factor*v, err
	}
	return 0, nil
}

func (r *numberReader) packed(ctx context.Context, i int64) (int64, error) {
	v, err := r.data.direct(ctx, r.n.off, int(r.n.bits), i, r.le)
	if err != nil {
		return 0, err
	}
	if r.n.table == nil {
		return r.n.min + r.n.factor*int64(v), nil
	}
	if v >= uint64(len(r.n.table)) {
		return 0, codec.Errorf(r.n.off, "place %d in a table of %d", v, len(r.n.table))
	}
	return r.n.table[v], nil
}

func (r *numberReader) blocked(ctx context.Context, i int64) (int64, error) {
	want := i >> r.n.shift
	if want < r.block {
		r.block, r.end = -1, r.n.off
	}
	for r.block != want {
		if err := r.nextBlock(ctx); err != nil {
			return 0, err
		}
	}
	v, err := r.data.direct(ctx, r.body, r.bits, i&(1<<r.n.shift-1), r.le)
	if err == nil && r.bits > 0 && r.body+(int64(r.bits)*(i&(1<<r.n.shift-1)+1)+7)/8 > r.end {
		err = codec.Errorf(r.start, "a block of %d bytes is too short for its values", r.end-r.start)
	}
	return r.min + r.n.factor*int64(v), err
}

func (r *numberReader) nextBlock(ctx context.Context) error {
	r.start = r.end
	head, err := r.data.at(ctx, r.start, 9)
	if err != nil {
		return err
	}
	order := binary.ByteOrder(binary.BigEndian)
	if r.le {
		order = binary.LittleEndian
	}
	r.bits, r.min = int(head[0]), int64(order.Uint64(head[1:]))
	r.body, r.end = r.start+9, r.start+9
	if r.bits > 64 {
		return codec.Errorf(r.start, "packed values of %d bits", r.bits)
	}
	if r.bits > 0 {
		size, err := r.data.at(ctx, r.body, 4)
		if err != nil {
			return err
		}
		r.body += 4
		if r.end = r.body + int64(int32(order.Uint32(size))); r.end < r.body {
			return codec.Errorf(r.start, "block of %d bytes", r.end-r.body)
		}
	}
	r.block++
	return nil
}

func (r *numberReader) tsdb(ctx context.Context, i int64) (int64, error) {
	if b := i >> r.n.shift; b != r.block {
		r.block = -1
		start, err := r.index.at(ctx, b)
		if err != nil {
			return 0, err
		}
		end := r.n.size
		if b+1 < r.n.index.meta.Len() {
			if end, err = r.index.at(ctx, b+1); err != nil {
				return 0, err
			}
		}
		if start < 0 || end < start || end > r.n.size || end-start > blockBound(r.n.shift) {
			return 0, codec.Errorf(r.n.off, "block %d of values from %d to %d of %d bytes", b, start, end, r.n.size)
		}
		p, err := r.data.at(ctx, r.n.off+start, end-start)
		if err != nil {
			return 0, err
		}
		if err := at(r.n.off+start, r.decoder.decode(p)); err != nil {
			return 0, err
		}
		r.block = b
	}
	return r.decoder.out[i&(1<<r.n.shift-1)], nil
}

// ranged returns the ordinal of a document; ordinals ascend with the documents.
func (r *numberReader) ranged(ctx context.Context, doc int64) (int64, error) {
	n := r.n.ranges.meta.Len() - 1
	if doc < r.next && r.next > 0 {
		if begin, err := r.ranges.at(ctx, r.ordinal); err != nil || begin <= doc {
			return r.ordinal, err
		}
		r.ordinal = 0
	}
	low, high := r.ordinal, n // the last set that starts at or before doc
	for low+1 < high {
		mid := low + (high-low)/2
		begin, err := r.ranges.at(ctx, mid)
		if err != nil {
			return 0, err
		}
		if begin <= doc {
			low = mid
		} else {
			high = mid
		}
	}
	var err error
	r.ordinal = low
	r.next, err = r.ranges.at(ctx, low+1)
	if err == nil && r.next <= doc {
		err = codec.Errorf(r.n.off, "document %d lies after the last ordinal, which ends at %d", doc, r.next)
	}
	return r.ordinal, err
}
