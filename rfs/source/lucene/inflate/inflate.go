// Package inflate decodes raw DEFLATE streams (RFC 1951) of a known length from memory to memory, optionally with a dictionary before the
// output. Because lengths and positions are known, nothing is copied through a window, and input is read eight bytes at a time.
//
// The inner loop follows the order that libdeflate uses. An entry of the table of literals and lengths holds up to two symbols (see
// table.go), because most of the time is lost where the processor mispredicts whether a literal or a match follows. Everything is plain Go
// with checked indices: damage can cause an error or wrong bytes, never an out-of-bounds access.
package inflate

import (
	"encoding/binary"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

var (
	errShort    = fmt.Errorf("deflate: the stream ends early: %w", fault.ErrCorrupt)
	errLong     = fmt.Errorf("deflate: more data than the stated length: %w", fault.ErrCorrupt)
	errLess     = fmt.Errorf("deflate: less data than the stated length: %w", fault.ErrCorrupt)
	errDistance = fmt.Errorf("deflate: match reaches before the beginning: %w", fault.ErrCorrupt)
	errCode     = fmt.Errorf("deflate: bits that are not a code: %w", fault.ErrCorrupt)
	errLengths  = fmt.Errorf("deflate: lengths that do not form a complete code: %w", fault.ErrCorrupt)
	errBlock    = fmt.Errorf("deflate: block of an unknown type: %w", fault.ErrCorrupt)
	errStored   = fmt.Errorf("deflate: length of a stored block and its complement differ: %w", fault.ErrCorrupt)
)

// Decoder decodes streams in sequence. The zero value is ready for use.
type Decoder struct {
	lit   [litSize]uint32
	dist  [distSize]uint32
	fixed bool // uses the tables of fixed codes

	pairs pairs
	codes codes

	pre     [1 << preBits]uint32
	lengths [maxLits + maxDist]uint8

	src  []byte
	pos  int    // index of the next byte of src that is not in bits
	bits uint64 // the next bits of the stream; those above n are zero between the steps
	n    uint
}

// Decode fills buf[start:] from the stream at the start of src, which must decode to exactly that many bytes. Matches may reach back to
// buf[0]: buf[:start] is the dictionary. Bytes of src after the stream are ignored. All errors are fault.ErrCorrupt.
func (d *Decoder) Decode(buf []byte, start int, src []byte) error {
	d.src, d.pos, d.bits, d.n = src, 0, 0, 0
	defer func() { d.src = nil }()
	at := start
	for {
		head, ok := d.take(3)
		if !ok {
			return errShort
		}
		var err error
		switch head >> 1 {
		case 0:
			at, err = d.stored(buf, at)
		case 1:
			d.fixedCodes()
			at, err = d.block(buf, at)
		case 2:
			if err = d.dynamicCodes(); err == nil {
				at, err = d.block(buf, at)
			}
		default:
			err = errBlock
		}
		switch {
		case err != nil:
			return err
		case head&1 == 0:
		case at < len(buf):
			return errLess
		default:
			return nil
		}
	}
}

// fill reads as many bits as fit.
func (d *Decoder) fill() {
	if d.pos+8 <= len(d.src) {
		d.bits |= binary.LittleEndian.Uint64(d.src[d.pos:]) << d.n
		d.pos += int((63 - d.n) >> 3)
		d.n |= 56
		d.bits &= 1<<d.n - 1
		return
	}
	for d.n <= 56 && d.pos < len(d.src) {
		d.bits |= uint64(d.src[d.pos]) << d.n
		d.pos++
		d.n += 8
	}
}

// take returns the next n bits, at most 32; false if fewer are left.
func (d *Decoder) take(n uint) (uint32, bool) {
	if d.n < n {
		if d.fill(); d.n < n {
			return 0, false
		}
	}
	v := uint32(d.bits & (1<<n - 1))
	d.drop(n)
	return v, true
}

func (d *Decoder) drop(n uint) {
	d.bits >>= n
	d.n -= n
}

// stored copies an uncompressed block: from the next byte on, u16 length, its complement, bytes.
func (d *Decoder) stored(buf []byte, at int) (int, error) {
	d.drop(d.n & 7)
	pos := d.pos - int(d.n>>3)
	d.bits, d.n = 0, 0
	if len(d.src)-pos < 4 {
		return at, errShort
	}
	size := int(binary.LittleEndian.Uint16(d.src[pos:]))
	if size != int(^binary.LittleEndian.Uint16(d.src[pos+2:])) {
		return at, errStored
	}
	pos += 4
	if size > len(d.src)-pos {
		return at, errShort
	}
	if size > len(buf)-at {
		return at, errLong
	}
	copy(buf[at:], d.src[pos:pos+size])
	d.pos = pos + size
	return at + size, nil
}

// fixedCodes builds the tables of blocks of type 1.
func (d *Decoder) fixedCodes() {
	if d.fixed {
		return
	}
	for i := range maxLits {
		switch {
		case i < 144:
			d.lengths[i] = 8
		case i < 256:
			d.lengths[i] = 9
		case i < 280:
			d.lengths[i] = 7
		default:
			d.lengths[i] = 8
		}
	}
	for i := range maxDist {
		d.lengths[maxLits+i] = 5
	}
	d.tables(maxLits, maxDist)
	d.fixed = true
}

// preOrder is the order in which the lengths of the code length code are stored.
var preOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamicCodes reads the codes at the start of a block of type 2 and builds their tables.
func (d *Decoder) dynamicCodes() error {
	head, ok := d.take(14)
	if !ok {
		return errShort
	}
	lits, dists, pres := int(head&31)+257, int(head>>5&31)+1, int(head>>10)+4
	if lits > 286 || dists > 30 {
		return errLengths
	}
	var lengths [19]uint8
	for _, at := range preOrder[:pres] {
		n, ok := d.take(3)
		if !ok {
			return errShort
		}
		lengths[at] = uint8(n)
	}
	if !d.codes.set(lengths[:]) {
		return errLengths
	}
	build(d.pre[:], preMeaning[:], &d.codes, preBits, preSpecial, 0)
	d.fixed = false
	for i := 0; i < lits+dists; {
		if d.n < 7+7 {
			d.fill()
		}
		e := d.pre[d.bits&(1<<preBits-1)]
		n := uint(e & 63)
		if e&preSpecial != 0 {
			return errCode
		}
		if n > d.n {
			return errShort
		}
		d.drop(n)
		symbol := uint8(e >> 16)
		if symbol < 16 {
			d.lengths[i] = symbol
			i++
			continue
		}
		var value uint8
		var least, extra uint32
		switch symbol {
		case 16:
			if i == 0 {
				return errLengths
			}
			value, least, extra = d.lengths[i-1], 3, 2
		case 17:
			least, extra = 3, 3
		default:
			least, extra = 11, 7
		}
		more, ok := d.take(uint(extra))
		if !ok {
			return errShort
		}
		end := i + int(least+more)
		if end > lits+dists {
			return errLengths
		}
		for ; i < end; i++ {
			d.lengths[i] = value
		}
	}
	if !d.tables(lits, dists) {
		return errLengths
	}
	return nil
}

// tables builds the tables from the code lengths that were read, and reports whether the codes are complete.
func (d *Decoder) tables(lits, dists int) bool {
	if !d.pairs.set(d.lengths[:lits]) || !d.codes.set(d.lengths[lits:lits+dists]) {
		return false
	}
	d.pairs.build(&d.lit)
	build(d.dist[:], distMeaning[:], &d.codes, distBits, distSpecial, distSpecial|distLeadsOn)
	return true
}
