package columns

import (
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
)

/*
The terms of a sorted column, in blocks of 2^shift:

	VInt length, first term | the others
	others, compressed: VInt n, LZ4 of n bytes with the first term as dictionary; nothing
	                    if the block has only one term
	each other: u8 low nibble prefix p, high nibble suffix-1 s; p = 15: + VInt; s = 15: + VInt;
	            the suffix bytes; the prefix is shared with the preceding term
*/
type terms struct {
	n            int64
	shift        int32
	compressed   bool
	longest      int32 // bytes of a term
	longestBlock int32
	addresses    sequence
	off, size    int64
}

// maxTerm bounds the length of a term; writers reject terms of more than 32,766 bytes.
const maxTerm = 1 << 16

// maxTermShift bounds the shift of blocks of terms; writers use 4 and 6.
const maxTermShift = 8

// termReader returns the terms by ordinal, fastest in ascending order.
type termReader struct {
	t         *terms
	addresses *sequenceReader
	data      *view
	ordinal   int64  // of term; -1: none
	term      []byte // the term returned last
	rest      codec.Input
	place     int64 // offset of the block in the file
	raw       []byte
}

func newTermReader(t *terms, data Data) *termReader {
	return &termReader{t: t, addresses: newSequenceReader(&t.addresses, data), data: newView(data, t.off, t.size), ordinal: -1}
}

// at returns a term, valid until the next call.
func (r *termReader) at(ctx context.Context, ordinal int64) ([]byte, error) {
	if ordinal < 0 || ordinal >= r.t.n {
		return nil, codec.Errorf(r.t.off, "ordinal %d of %d terms", ordinal, r.t.n)
	}
	if r.ordinal < 0 || ordinal < r.ordinal || ordinal>>r.t.shift != r.ordinal>>r.t.shift {
		if err := r.open(ctx, ordinal>>r.t.shift); err != nil {
			return nil, err
		}
	}
	for r.ordinal < ordinal {
		if err := r.next(); err != nil {
			r.ordinal = -1
			return nil, codec.Errorf(r.place, "block of terms: %w", err)
		}
		r.ordinal++
	}
	return r.term, nil
}

// open moves to the first term of a block.
func (r *termReader) open(ctx context.Context, block int64) error {
	r.ordinal = -1
	start, err := r.addresses.at(ctx, block)
	if err != nil {
		return err
	}
	end := r.t.size
	if block+1 < r.t.addresses.meta.Len() {
		if end, err = r.addresses.at(ctx, block+1); err != nil {
			return err
		}
	}
	r.place = r.t.off + start
	if r.t.shift > maxTermShift {
		return codec.Errorf(r.t.off, "terms in blocks of 2^%d", r.t.shift)
	}
	if start < 0 || end < start || end > r.t.size || r.t.longest < 0 || r.t.longest > maxTerm || end-start > int64(r.t.longest+16)<<r.t.shift+64 {
		return codec.Errorf(r.t.off, "block %d of terms from %d to %d of %d bytes, the longest term %d", block, start, end, r.t.size, r.t.longest)
	}
	p, err := r.data.at(ctx, r.place, end-start)
	if err != nil {
		return err
	}
	in := codec.NewInput(p)
	n := in.VInt()
	if n > r.t.longest {
		in.Fail("term of %d bytes, the longest has %d", n, r.t.longest)
	}
	r.term = append(r.term[:0], in.Take(int(n))...)
	if in.Err() != nil {
		return at(r.place, in.Err())
	}
	if r.t.compressed && in.Left() > 0 {
		if err := r.unpack(in); err != nil {
			return codec.Errorf(r.place, "block of terms: %w", err)
		}
	} else {
		r.raw = append(r.raw[:0], in.Rest()...)
		r.rest = *codec.NewInput(r.raw)
	}
	r.ordinal = block << r.t.shift
	return nil
}

func (r *termReader) unpack(in *codec.Input) error {
	n := int(in.VInt())
	if in.Err() != nil {
		return in.Err()
	}
	if n < 0 || int64(n) > int64(r.t.longest+16)<<r.t.shift {
		return codec.Errorf(0, "%d bytes of terms", n)
	}
	dict := len(r.term)
	if _, err := lz4.Measure(in.Rest(), dict, n); err != nil {
		return err
	}
	r.raw = append(append(r.raw[:0], r.term...), make([]byte, n)...)
	if _, err := lz4.Decode(r.raw, dict, in.Rest()); err != nil {
		return err
	}
	r.rest = *codec.NewInput(r.raw[dict:])
	return nil
}

// next decodes the next term of the block.
func (r *termReader) next() error {
	in := &r.rest
	token := in.U8()
	prefix, suffix := int(token&15), int(token>>4)+1
	if prefix == 15 {
		prefix += int(in.VInt())
	}
	if suffix == 16 {
		suffix += int(in.VInt())
	}
	if in.Err() == nil && (prefix < 0 || prefix > len(r.term) || suffix < 0 || prefix+suffix > int(r.t.longest)) {
		in.Fail("term of %d+%d bytes after one of %d, the longest has %d", prefix, suffix, len(r.term), r.t.longest)
	}
	tail := in.Take(suffix)
	if in.Err() == nil {
		r.term = append(r.term[:prefix], tail...)
	}
	return in.Err()
}
