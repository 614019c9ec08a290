package columns

import (
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
BLOCKS(n), n values in blocks of 2^shift, in the .dvd file of Lucene 4.5 to 4.8:

	u8 bits<<1|plain | not plain: LONG, zig-zag of it+1 is min | the differences from min, packed

A plain block has min 0. LONG is a VLong of at most 9 bytes, the last of which has 8 bits.
*/

// oldBlockReader reads the values of a BLOCKS; the heads of the blocks up to the requested one are read once.
type oldBlockReader struct {
	*packedSequence
	off    int64
	data   *view
	blocks []packedBlock
}

// maxBlocksHead bounds the head of a block.
const maxBlocksHead = 1 + 9

func (r *oldBlockReader) at(ctx context.Context, i int64) (int64, error) {
	if i < 0 || i >= r.n {
		return 0, codec.Errorf(r.off, "value %d of %d", i, r.n)
	}
	for int64(len(r.blocks)) <= i>>r.shift {
		if err := r.next(ctx); err != nil {
			return 0, err
		}
	}
	b := r.blocks[i>>r.shift]
	delta, err := r.data.direct(ctx, b.off, b.bits, i&(1<<r.shift-1), false)
	return b.min + int64(delta), err
}

func (r *oldBlockReader) next(ctx context.Context) error {
	at, in, err := r.nextHead(ctx, r.data, r.off, r.blocks, maxBlocksHead)
	if err != nil {
		return err
	}
	token := in.U8()
	b := packedBlock{bits: int(token >> 1)}
	if token&1 == 0 {
		b.min = codec.ZigZag64(1 + longOf9(in))
	}
	if in.Err() == nil && b.bits > 64 {
		in.Fail("packed values of %d bits", b.bits)
	}
	if in.Err() != nil {
		return codec.Errorf(at, "block of values: %w", in.Err())
	}
	b.off = at + int64(in.Pos())
	r.blocks = append(r.blocks, b)
	return nil
}

// longOf9 reads a LONG.
func longOf9(in *codec.Input) int64 {
	var v uint64
	for shift := 0; shift < 56; shift += 7 {
		c := in.U8()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(v)
		}
	}
	return int64(v | uint64(in.U8())<<56)
}
