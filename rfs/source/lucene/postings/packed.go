package postings

import "encoding/binary"

/*
A block of N numbers of b bits since Lucene 8.4: little-endian words of W bits. Each word consists of W/P primitives of P bits,
the first in the highest bits (b determines P: 8, 16 or 32). Primitive k of all words encodes N*P/W numbers: first one number
in the highest b bits of each, then one in the next b bits of each, as long as b bits are left; the remaining low bits of all
words form one bit string, most significant bit first, with the other numbers.
*/
func (l *layout) primitive(bits int, narrow [2]int) int {
	switch {
	case bits <= narrow[0]:
		return 8
	case bits <= narrow[1]:
		return 16
	}
	return 32
}

// unpack decodes a block of numbers of 1 to 31 bits (32 in words of 32).
func (l *layout) unpack(c *cursor, bits, prim int, out []uint32) {
	n := l.block
	perShift := bits * n / l.word
	p := c.take(int64(bits * n / 8))
	if p == nil {
		return
	}
	lanes, each := l.word/prim, n*prim/l.word
	mask := uint32(uint64(1)<<bits - 1)
	var lane [maxBlock]uint32
	for k := range lanes {
		at := uint(prim * (lanes - 1 - k))
		for i := range perShift {
			lane[i] = uint32(l.wordAt(p, i)>>at) & uint32(uint64(1)<<prim-1)
		}
		to := out[k*each : (k+1)*each]
		idx, shift := 0, prim-bits
		for ; shift >= 0; shift -= bits {
			for i := range perShift {
				to[idx] = lane[i] >> uint(shift) & mask
				idx++
			}
		}
		rest := shift + bits // bits left in each
		var acc uint64
		held := 0
		for i := 0; idx < each; idx++ {
			for held < bits {
				acc = acc<<uint(rest) | uint64(lane[i]&uint32(uint64(1)<<rest-1))
				held += rest
				i++
			}
			held -= bits
			to[idx] = uint32(acc>>uint(held)) & mask
		}
	}
}

func (l *layout) wordAt(p []byte, i int) uint64 {
	if l.word == 32 {
		return uint64(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return binary.LittleEndian.Uint64(p[8*i:])
}

// patch decodes a block with exceptions: u8 of bits and the number of exceptions (3 high bits), the numbers (0 bits: one number for all),
// and for each exception its index and its high bits.
func (l *layout) patch(c *cursor, out []uint32) {
	token := int(c.u8())
	bits := token & 31
	if bits == 0 {
		fill(out[:l.block], c.wide())
	} else {
		l.unpack(c, bits, l.primitive(bits, bytesOrShorts), out)
	}
	for range token >> 5 {
		p := c.take(2)
		if p == nil {
			return
		}
		if int(p[0]) >= l.block {
			c.fail("exception at %d of a block of %d", p[0], l.block)
			return
		}
		out[p[0]] |= uint32(p[1]) << bits
	}
}

// skipPatch skips a block with exceptions.
func (l *layout) skipPatch(c *cursor) {
	token := int64(c.u8())
	if bits := token & 31; bits == 0 {
		c.wide()
	} else {
		c.skip(bits * int64(l.block) / 8)
	}
	c.skip(token >> 5 * 2)
}

func fill(out []uint32, v uint32) {
	for i := range out {
		out[i] = v
	}
}

// oldBlocks states how blocks of each width are packed in Lucene 4 and 5; it comes from the head of .doc.
type oldBlocks [33]struct {
	single bool // words of 64 bits, no number spans two of them, low bits first; else one bit string
	bits   int
}

func readOldBlocks(c *cursor) (o oldBlocks) {
	c.vint() // version of packed integers
	for w := 1; w <= 32; w++ {
		code := c.vint()
		o[w].single, o[w].bits = code>>5 == 1, int(code&31)+1
		if c.err == nil && (code>>5 > 1 || o[w].bits < w) {
			c.fail("numbers of %d bits in form %d of %d bits", w, code>>5, o[w].bits)
		}
	}
	return o
}

func (o *oldBlocks) size(bits int) int64 {
	w := o[bits]
	if w.single {
		per := 64 / w.bits
		return int64((128+per-1)/per) * 8
	}
	return int64(16 * w.bits)
}

// read decodes a block of 128: u8 of bits (0: one number for all), the numbers.
func (o *oldBlocks) read(c *cursor, out []uint32) {
	bits := int(c.u8())
	if bits == 0 {
		fill(out[:128], c.wide())
		return
	}
	if bits > 32 {
		c.fail("packed values of %d bits", bits)
		return
	}
	p := c.take(o.size(bits))
	if p == nil {
		return
	}
	b := o[bits].bits
	mask := uint64(1)<<b - 1
	if o[bits].single {
		per := 64 / b
		for i := range 128 {
			out[i] = uint32(binary.BigEndian.Uint64(p[i/per*8:]) >> uint(i%per*b) & mask)
		}
		return
	}
	var acc uint64
	held, at := 0, 0
	for i := range 128 {
		for held < b {
			acc = acc<<8 | uint64(p[at])
			at++
			held += 8
		}
		held -= b
		out[i] = uint32(acc >> uint(held) & mask)
	}
}

func (o *oldBlocks) skip(c *cursor) {
	switch bits := int(c.u8()); {
	case bits == 0:
		c.wide()
	case bits > 32:
		c.fail("packed values of %d bits", bits)
	default:
		c.skip(o.size(bits))
	}
}
