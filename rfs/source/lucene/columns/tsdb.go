package columns

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
A block of 2^shift values of Elasticsearch's formats; the last block is filled up.

	ordinals   VLong v, whose trailing ones are the form: 0 all are v>>1; 1 v>>2 for VInt n values,
	           then that plus a zig-zag VLong; 2 PACKED; 3 v>>4 VLong that repeat
	else, ES819  VInt bits<<3|token, [bits>0: PACKED], [token&1: VLong factor-2],
	           [token&2: zig-zag VLong offset], [token&4: zig-zag VLong first of the deltas]
	pipelines  u8 (more than 8 stages: i16) mask of the stages that apply, the last stage:
	           VInt bits, [bits>0: PACKED]; then the data of the other stages, the last first:
	           delta         zig-zag VLong first
	           offset        zig-zag VLong offset
	           factor        VLong factor-2
	           split delta   VInt k, k VInt indices, k+1 zig-zag VLong: deltas restart there
	           decimal       u8 e, u8 f, VInt n, n of (VInt index, i64 value): values are v * (10^f * 10^-e)
	                         as doubles, except at these indices; doubles in the form that sorts as integers

	PACKED     bits <= 32: parts of 128 values (packed128); 40, 48, 56: that many bits each,
	           little-endian; 64: i64 each
*/
type tsdbDecoder struct {
	n       *numbers
	bits    int // of packed ordinals
	out     []int64
	scratch [64]uint64
}

func newTSDBDecoder(n *numbers, ordinals int64) *tsdbDecoder {
	d := &tsdbDecoder{n: n, out: make([]int64, 1<<n.shift)}
	d.bits = max(1, bits.Len64(uint64(max(ordinals-1, 0))))
	return d
}

// decode fills d.out from the bytes of one block.
func (d *tsdbDecoder) decode(p []byte) error {
	in := codec.NewInput(p)
	in.SetLittleEndian(true)
	switch {
	case d.n.ordinals:
		d.ordinals(in)
	case d.n.stages != nil:
		d.pipeline(in)
	default:
		d.plain(in)
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left in a block of values", in.Left())
	}
	return in.Err()
}

func (d *tsdbDecoder) ordinals(in *codec.Input) {
	v := uint64(in.VLong())
	form := bits.TrailingZeros64(^v)
	v >>= form + 1
	switch form {
	case 0:
		fill(d.out, int64(v))
	case 1:
		n := int(in.VInt())
		if n < 0 || n > len(d.out) {
			in.Fail("run of %d ordinals", n)
			return
		}
		fill(d.out[:n], int64(v))
		fill(d.out[n:], int64(v)+codec.ZigZag64(in.VLong()))
	case 2:
		d.packed(in, d.bits)
	case 3:
		if v < 1 || v > uint64(len(d.out)) {
			in.Fail("cycle of %d ordinals", v)
			return
		}
		for i := range v {
			d.out[i] = in.VLong()
		}
		for i := int(v); i < len(d.out); i++ {
			d.out[i] = d.out[i-int(v)]
		}
	default:
		in.Fail("ordinals of form %d", form)
	}
}

func (d *tsdbDecoder) plain(in *codec.Input) {
	token := in.VInt()
	d.bitsOrZero(in, int(token>>3))
	if token&1 != 0 {
		d.factor(in)
	}
	if token&2 != 0 {
		d.offset(in)
	}
	if token&4 != 0 {
		d.deltas(d.out, codec.ZigZag64(in.VLong()))
	}
}

func (d *tsdbDecoder) pipeline(in *codec.Input) {
	stages := d.n.stages
	mask := uint16(in.U8())
	if len(stages) > 8 {
		mask |= uint16(in.U8()) << 8
	}
	last := len(stages) - 1
	if mask>>last != 1 {
		in.Fail("mask %x of %d stages", mask, len(stages))
		return
	}
	d.bitsOrZero(in, int(in.VInt()))
	for i := last - 1; i >= 0 && in.Err() == nil; i-- {
		if mask>>i&1 == 0 {
			continue
		}
		switch stages[i] {
		case stageDelta:
			d.deltas(d.out, codec.ZigZag64(in.VLong()))
		case stageOffset:
			d.offset(in)
		case stageFactor:
			d.factor(in)
		case stageSplitDelta:
			d.splitDeltas(in)
		case stageDecimal:
			d.decimals(in)
		}
	}
}

func (d *tsdbDecoder) factor(in *codec.Input) {
	f := in.VLong() + 2
	for i := range d.out {
		d.out[i] *= f
	}
}

func (d *tsdbDecoder) offset(in *codec.Input) {
	o := codec.ZigZag64(in.VLong())
	for i := range d.out {
		d.out[i] += o
	}
}

// deltas replaces differences by values; the first is a difference to sum.
func (*tsdbDecoder) deltas(v []int64, sum int64) {
	for i := range v {
		sum += v[i]
		v[i] = sum
	}
}

func (d *tsdbDecoder) splitDeltas(in *codec.Input) {
	k := in.Count(2)
	places := make([]int, 0, k+1)
	last := 0
	for range k {
		at := int(in.VInt())
		if in.Err() == nil && (at <= last || at >= len(d.out)) {
			in.Fail("deltas restart at %d after %d", at, last)
		}
		if in.Err() != nil {
			return
		}
		places = append(places, at)
		last = at
	}
	from := 0
	for _, to := range append(places, len(d.out)) {
		d.deltas(d.out[from:to], codec.ZigZag64(in.VLong()))
		from = to
	}
}

// maxPower is the maximum exponent up to which powers of ten are exact.
const maxPower = 22

func (d *tsdbDecoder) decimals(in *codec.Input) {
	e, f := int(in.U8()), int(in.U8())
	if e > maxPower || f > maxPower {
		in.Fail("decimals of 10^%d and 10^-%d", f, e)
		return
	}
	factor := math.Pow10(f) * math.Pow10(-e)
	for i, v := range d.out {
		d.out[i] = sortable(float64(v) * factor)
	}
	for range in.Count(9) {
		at := in.VInt()
		v := in.I64()
		if in.Err() != nil || at < 0 || int(at) >= len(d.out) {
			in.Fail("value at %d of a block", at)
			return
		}
		d.out[at] = v
	}
}

// sortable returns an integer that sorts like the double v.
func sortable(v float64) int64 {
	b := int64(math.Float64bits(v))
	return b ^ b>>63&math.MaxInt64
}

func (d *tsdbDecoder) bitsOrZero(in *codec.Input, n int) {
	if n == 0 {
		fill(d.out, 0)
		return
	}
	d.packed(in, n)
}

func (d *tsdbDecoder) packed(in *codec.Input, n int) {
	switch {
	case n >= 1 && n <= 32:
		words := 2 * n
		if n > 24 {
			words = 64
		}
		for at := 0; at < len(d.out); at += 128 {
			p := in.Take(8 * words)
			if p == nil {
				return
			}
			for i := range words {
				d.scratch[i] = binary.LittleEndian.Uint64(p[8*i:])
			}
			unpack128((*[128]int64)(d.out[at:]), &d.scratch, n)
		}
	case n == 40 || n == 48 || n == 56 || n == 64:
		p := in.Take(len(d.out) * n / 8)
		if p == nil {
			return
		}
		for i := range d.out {
			var v uint64
			for b, c := range p[i*n/8 : (i+1)*n/8] {
				v |= uint64(c) << (8 * b)
			}
			d.out[i] = int64(v)
		}
	default:
		in.Fail("values of %d bits", n)
	}
}

/*
unpack128 unpacks 128 values of 1–32 bits from 2*bits words. A word is divided
into lanes of 8, 16 or 32 bits, the narrowest in which a value fits (32 from 25 bits on:
nothing is packed then); the highest lanes of the L words hold the first L values, and so on. In
each lane values are packed from the highest bit down: first as many whole values as a lane
holds, words first, then the others in the remaining bits of the lanes.
*/
func unpack128(out *[128]int64, in *[64]uint64, width int) {
	lane := 32
	if width <= 8 {
		lane = 8
	} else if width <= 16 {
		lane = 16
	}
	if width > 24 {
		width = 32
	}
	n, words := 2*width, 2*lane
	var packed [64]uint64
	at, shift := 0, lane-width
	for ; shift >= 0; shift -= width {
		mask := laneMask(lane, width)
		for i := range n {
			packed[at] = in[i] >> shift & mask
			at++
		}
	}
	left := shift + width // bits that are left in each lane
	have, from := left, 0
	for ; at < words; at++ {
		want := width - have
		v := in[from] & laneMask(lane, have) << want
		from++
		for want >= left {
			want -= left
			v |= in[from] & laneMask(lane, left) << want
			from++
		}
		have = left
		if want > 0 {
			v |= in[from] >> (left - want) & laneMask(lane, want)
			have = left - want
		}
		packed[at] = v
	}
	mask := uint64(1)<<lane - 1
	for l := range 64 / lane {
		down := 64 - lane*(l+1)
		for i := range words {
			out[l*words+i] = int64(packed[i] >> down & mask)
		}
	}
}

// laneMask returns a word with the lowest n bits of each lane set.
func laneMask(lane, n int) uint64 {
	m := uint64(1)<<n - 1
	for w := lane; w < 64; w *= 2 {
		m |= m << w
	}
	return m
}

func fill(v []int64, x int64) {
	for i := range v {
		v[i] = x
	}
}
