package codec

/*
A monotonic sequence of n values: per block of 2^shift values the metadata hold

	i64 min | f32 avg | i64 offset | u8 bits

and the data file holds, at offset, a DirectReader array of deltas (none when bits is 0):

	value(i) = min + int64(avg * float32(i mod 2^shift)) + delta(i mod 2^shift)

The product is rounded to float32 and truncated toward zero.
*/

// Monotonic is the metadata of a monotonic sequence.
type Monotonic struct {
	n      int64
	shift  uint
	blocks []monotonicBlock
}

type monotonicBlock struct {
	min  int64
	avg  float32
	off  int64
	bits uint8
}

const monotonicBlockLen = 8 + 4 + 8 + 1

// Monotonic reads the metadata of n values in blocks of 2^shift.
func (in *Input) Monotonic(n int64, shift int32) Monotonic {
	if n < 0 || shift < 0 || shift > 30 {
		in.Fail("monotonic sequence of %d values in blocks of 2^%d", n, shift)
		return Monotonic{}
	}
	num := n >> shift
	if n&(1<<shift-1) != 0 {
		num++
	}
	if in.err != nil || num > int64(in.Left())/monotonicBlockLen {
		in.Fail("%d monotonic blocks do not fit the %d bytes left", num, in.Left())
		return Monotonic{}
	}
	m := Monotonic{n: n, shift: uint(shift), blocks: make([]monotonicBlock, num)}
	for i := range m.blocks {
		m.blocks[i] = monotonicBlock{min: in.I64(), avg: in.F32(), off: in.I64(), bits: in.U8()}
	}
	return m
}

// Len returns the number of values.
func (m Monotonic) Len() int64 { return m.n }

// Span returns the bytes of the data that hold the delta of value i, as DirectSpan does.
func (m Monotonic) Span(i int64) (off, n int64) {
	if i < 0 || i >= m.n {
		return -1, 0
	}
	b := m.blocks[i>>m.shift]
	off, n = DirectSpan(int(b.bits), i&(1<<m.shift-1))
	if n == 0 {
		return off, 0
	}
	if b.bits > 64 || b.off < 0 || b.off > 1<<62 {
		return -1, 0
	}
	return b.off + off, n
}

// At returns value i; span holds the bytes of its Span.
func (m Monotonic) At(i int64, span []byte, le bool) int64 {
	b, k := m.blocks[i>>m.shift], i&(1<<m.shift-1)
	return b.at(k, DirectIn(span, int(b.bits), k, le))
}

// at returns value k of a block. The conversion to float32 keeps the product from being fused or widened.
func (b monotonicBlock) at(k int64, delta uint64) int64 {
	return b.min + int64(float32(b.avg*float32(k))) + int64(delta)
}
