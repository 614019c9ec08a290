package columns

import (
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
)

/*
Compressed binary values, in chunks of several values:

	Lucene80  VInt length<<1|same, [not same: 2^shift-1 VInt, the other lengths]; LZ4 of all of them,
	          when they have bytes. The last chunk has lengths of 0 for the values it lacks.
	ES819     u8 1: compressed | VInt raw length, when > 0: OFFSETS of its n values, then
	          compressed: VInt, that many bytes of zstd; else the raw bytes
	OFFSETS   n+1 numbers, each a difference to the preceding one, the first of them 0
	          ES819TSDB: in groups of 4: u8 four times 2 bits, length-1 of each, then their bytes,
	          little-endian; the n%4 last ones as VInt
	          ES8193TSDB, ES95TSDB: u8 bits; bits > 0: packed, the most significant bit first
*/
type chunks struct {
	addresses *sequence // offsets of the chunks in the file
	first     *sequence // the first value of each chunk, and the number of values; nil: 2^shift values each
	shift     int32
	longest   int32 // raw bytes of a chunk
	most      int32 // values in a chunk
	grouped   bool  // the first form of OFFSETS of ES819
}

const (
	maxChunkShift  = 12
	maxChunkValues = 1 << 20
	// zstdRatio bounds the raw bytes per byte of zstd: a block of 128 KiB takes at least 4.
	zstdRatio = 32 << 10
)

// chunkReader returns binary values by index, fastest in ascending order.
type chunkReader struct {
	c         *chunks
	blobs     *blobs
	addresses *sequenceReader
	first     *sequenceReader
	data      *view
	zstd      *zstd.Decoder

	chunk    int64 // the current chunk; -1: none
	from, to int64 // its values
	starts   []int32
	raw      []byte
	held     int64
}

// room resizes raw to n bytes of undefined content.
func (r *chunkReader) room(n int) (err error) {
	if cap(r.raw) < n {
		r.raw = nil
		if r.held, err = hold(r.data.data, r.held, int64(n)); err != nil {
			return err
		}
		r.raw = make([]byte, n)
	}
	r.raw = r.raw[:n]
	return nil
}

// shrink releases the memory of a long chunk.
func (r *chunkReader) shrink() {
	if r == nil {
		return
	}
	r.data.shrink()
	if r.held > 0 {
		r.raw, r.chunk = nil, -1
		r.held, _ = hold(r.data.data, r.held, 0)
	}
}

func newChunkReader(b *blobs, data Data) *chunkReader {
	r := &chunkReader{c: b.chunks, blobs: b, data: newView(data, b.off, b.size), chunk: -1}
	r.addresses = newSequenceReader(b.chunks.addresses, data)
	if b.chunks.first != nil {
		r.first = newSequenceReader(b.chunks.first, data)
	}
	return r
}

// at returns value i, valid until the next call.
func (r *chunkReader) at(ctx context.Context, i int64) ([]byte, error) {
	if r.chunk < 0 || i < r.from || i >= r.to {
		if err := r.open(ctx, i); err != nil {
			r.chunk = -1
			return nil, err
		}
	}
	k := i - r.from
	return r.raw[r.starts[k]:r.starts[k+1]], nil
}

// open decompresses the chunk of value i.
func (r *chunkReader) open(ctx context.Context, i int64) error {
	chunk, err := r.find(ctx, i)
	if err != nil {
		return err
	}
	start, err := r.addresses.at(ctx, chunk)
	if err != nil {
		return err
	}
	end := r.blobs.off + r.blobs.size
	if chunk+1 < r.addresses.meta.Len() {
		if end, err = r.addresses.at(ctx, chunk+1); err != nil {
			return err
		}
	}
	if r.c.longest < 0 || r.c.longest > maxBinary || end < start || end-start > 2*int64(r.c.longest)+5*(r.to-r.from+2)+64 {
		return codec.Errorf(start, "chunk %d of %d bytes, of at most %d raw ones", chunk, end-start, r.c.longest)
	}
	p, err := r.data.at(ctx, start, end-start)
	if err != nil {
		return err
	}
	r.chunk = chunk
	in := codec.NewInput(p)
	in.SetLittleEndian(true)
	if r.first == nil {
		return at(start, r.lz4(in))
	}
	return at(start, r.block(in))
}

// find returns the chunk of value i, and sets from and to to its values. It searches from the current chunk on.
func (r *chunkReader) find(ctx context.Context, i int64) (int64, error) {
	if r.first == nil {
		chunk := i >> r.c.shift
		r.from = chunk << r.c.shift
		r.to = r.from + 1<<r.c.shift
		return chunk, nil
	}
	low, high := max(r.chunk, 0), r.first.meta.Len()-1 // the last chunk that starts at or before i
	if r.chunk < 0 || i < r.from {
		low = 0
	}
	for low+1 < high {
		mid := low + (high-low)/2
		begin, err := r.first.at(ctx, mid)
		if err != nil {
			return 0, err
		}
		if begin <= i {
			low = mid
		} else {
			high = mid
		}
		if low == r.chunk+1 && r.chunk >= 0 { // usually it is the next one
			if next, err := r.first.at(ctx, low+1); err != nil || next > i {
				high = low + 1
			}
		}
	}
	from, err := r.first.at(ctx, low)
	if err != nil {
		return 0, err
	}
	to, err := r.first.at(ctx, low+1)
	if err != nil {
		return 0, err
	}
	if i < from || i >= to || to-from > int64(min(r.c.most, maxChunkValues)) {
		return 0, codec.Errorf(r.first.off, "value %d in a chunk of values %d to %d, which has at most %d", i, from, to, r.c.most)
	}
	r.from, r.to = from, to
	return low, nil
}

// offset appends the offset sum to starts.
func (r *chunkReader) offset(in *codec.Input, sum int64) {
	if in.Err() == nil && (sum < 0 || sum > int64(r.c.longest)) {
		in.Fail("value at %d of a chunk of at most %d bytes", sum, r.c.longest)
		return
	}
	r.starts = append(r.starts, int32(sum))
}

func (r *chunkReader) lz4(in *codec.Input) error {
	r.starts = append(r.starts[:0], 0)
	head := uint32(in.VInt())
	length := int64(head >> 1)
	sum := length
	r.offset(in, sum)
	for range r.to - r.from - 1 {
		if head&1 == 0 {
			length = int64(in.VInt())
		}
		sum += length
		if length < 0 {
			in.Fail("value of %d bytes", length)
		}
		r.offset(in, sum)
		if in.Err() != nil {
			return in.Err()
		}
	}
	if sum == 0 || in.Err() != nil {
		return in.Err()
	}
	if _, err := lz4.Measure(in.Rest(), 0, int(sum)); err != nil {
		return err
	}
	if err := r.room(int(sum)); err != nil {
		return err
	}
	_, err := lz4.Decode(r.raw, 0, in.Rest())
	return err
}

func (r *chunkReader) block(in *codec.Input) error {
	compressed := in.U8()&1 != 0
	raw := in.VInt()
	n := int(r.to - r.from)
	r.starts = r.starts[:0]
	switch {
	case in.Err() == nil && (raw < 0 || raw > r.c.longest):
		in.Fail("chunk of %d raw bytes, of at most %d", raw, r.c.longest)
	case raw == 0:
		for range n + 1 {
			r.starts = append(r.starts, 0)
		}
		return in.Err()
	case r.c.grouped:
		r.groups(in, n+1)
	default:
		r.packed(in, n+1)
	}
	if in.Err() != nil {
		return in.Err()
	}
	if r.starts[n] != raw || r.starts[0] != 0 {
		return codec.Errorf(0, "%d bytes of values from %d on, the chunk has %d", r.starts[n], r.starts[0], raw)
	}
	if !compressed {
		if err := r.room(int(raw)); err != nil {
			return err
		}
		copy(r.raw, in.Take(int(raw)))
		return in.Err()
	}
	p := in.Take(int(in.VInt()))
	if in.Err() == nil && int64(raw) > (int64(len(p))+1)*zstdRatio {
		in.Fail("%d raw bytes of %d", raw, len(p))
	}
	if in.Err() != nil {
		return in.Err()
	}
	return r.unzstd(p, int(raw))
}

func (r *chunkReader) unzstd(p []byte, raw int) error {
	if r.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBinary), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("zstd decoder: %w", err)
		}
		r.zstd = d
	}
	if err := r.room(raw); err != nil {
		return err
	}
	out, err := r.zstd.DecodeAll(p, r.raw[:0:raw])
	switch {
	case err != nil:
		return fmt.Errorf("chunk of values: %w: %w", fault.ErrCorrupt, err)
	case len(out) != raw:
		return fmt.Errorf("%d raw bytes in a chunk of %d: %w", len(out), raw, fault.ErrCorrupt)
	}
	r.raw = out
	return nil
}

// groups reads n differences in groups of four.
func (r *chunkReader) groups(in *codec.Input, n int) {
	sum := int64(0)
	for len(r.starts)+4 <= n && in.Err() == nil {
		flag := in.U8()
		for k := range 4 {
			v := int64(0)
			for b, c := range in.Take(int(flag>>(6-2*k)&3) + 1) {
				v |= int64(c) << (8 * b)
			}
			sum += v
			r.offset(in, sum)
			if in.Err() != nil {
				return
			}
		}
	}
	for len(r.starts) < n && in.Err() == nil {
		v := int64(in.VInt())
		sum += v
		if v < 0 {
			in.Fail("value of %d bytes", v)
		}
		r.offset(in, sum)
	}
}

// packed reads n differences of equal width.
func (r *chunkReader) packed(in *codec.Input, n int) {
	bits := int(in.U8())
	if bits > 32 {
		in.Fail("offsets of %d bits", bits)
		return
	}
	p := in.Take((n*bits + 7) / 8)
	sum := int64(0)
	for k := 0; k < n && in.Err() == nil; k++ {
		sum += int64(codec.PackedAt(p, bits, int64(k)))
		r.offset(in, sum)
	}
}
