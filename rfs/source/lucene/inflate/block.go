package inflate

import "encoding/binary"

const (
	maxMatch = 258
	// room is the maximum output of one round of the fast loop: four entries of two literals, and a match, copied 32 bytes at a time.
	room = 4*2 + maxMatch + 32
	// ahead is the maximum number of bytes that the fast loop reads ahead: two fills.
	ahead = 16
)

// block decodes a compressed block: fast as long as both buffers are far from their ends, then entry by entry.
func (d *Decoder) block(buf []byte, at int) (int, error) {
	at, done, err := d.fast(buf, at)
	if done || err != nil {
		return at, err
	}
	for {
		if d.n < 48 {
			d.fill()
		}
		e := d.lit[d.bits&(1<<litBits-1)]
		if e&leadsOn != 0 {
			if d.n < litBits {
				return at, errShort
			}
			d.drop(litBits)
			e = d.lit[secondLevel(e, d.bits, 1<<litBits)&(litSize-1)]
		}
		n := uint(e & 63)
		if n > d.n {
			return at, errShort
		}
		for k := range e >> 30 {
			if at == len(buf) {
				return at, errLong
			}
			buf[at] = byte(e >> (8 + 8*k))
			at++
		}
		length := int(e>>16&0xff) + 3
		switch {
		case e&isMatch != 0:
		case e&special == 0:
			d.drop(n)
			continue
		case e&blockEnd != 0:
			d.drop(n)
			return at, nil
		case e&extended == 0:
			return at, errCode
		default:
			length += extraBits(e, d.bits)
		}
		d.drop(n)
		dist, err := d.distance()
		switch {
		case err != nil:
			return at, err
		case dist > at:
			return at, errDistance
		case length > len(buf)-at:
			return at, errLong
		}
		repeat(buf, at, dist, length)
		at += length
	}
}

// secondLevel returns the index of an entry of the second level; first is the size of the first level, bits are the bits after the first
// part of the code.
func secondLevel(e uint32, bits uint64, first uint32) uint32 {
	return first + e>>16&0x3ff + uint32(bits)&(1<<(e>>8&15)-1)
}

// extraBits returns the value of the extra bits of an entry whose code is at the start of bits.
func extraBits(e uint32, bits uint64) int {
	return int(bits & (1<<(e&63) - 1) >> (e >> 8 & 15))
}

// distance reads the distance of a match.
func (d *Decoder) distance() (int, error) {
	e := d.dist[d.bits&(1<<distBits-1)]
	if e&distLeadsOn != 0 && e&distSpecial != 0 {
		if d.n < distBits {
			return 0, errShort
		}
		d.drop(distBits)
		e = d.dist[secondLevel(e, d.bits, 1<<distBits)&(distSize-1)]
	}
	n := uint(e & 63)
	switch {
	case e&distSpecial != 0:
		return 0, errCode
	case n > d.n:
		return 0, errShort
	}
	dist := int(e>>16) + extraBits(e, d.bits)
	d.drop(n)
	return dist, nil
}

// repeat copies n bytes from dist bytes before at to at; an overlapping copy doubles the repeated part until it is long enough.
func repeat(buf []byte, at, dist, n int) {
	from := at - dist
	for n > 0 {
		c := copy(buf[at:at+min(n, at-from)], buf[from:at])
		at += c
		n -= c
	}
}

// fast decodes until the block ends, which it reports, or a buffer is near its end.
//
// Only the lowest six bits of n are valid: whole entries are subtracted from it, including their higher bits. Each round accesses the
// buffers through arrays whose length the compiler knows, so that it needs no bounds checks.
func (d *Decoder) fast(buf []byte, at int) (int, bool, error) {
	src, pos, bits, n := d.src, d.pos, d.bits, uint64(d.n)
	done := false
	var err error
	for pos+ahead <= len(src) && at+room <= len(buf) {
		in := (*[ahead]byte)(src[pos : pos+ahead : pos+ahead])
		out := (*[room]byte)(buf[at : at+room : at+room])
		bits |= binary.LittleEndian.Uint64(in[:]) << (n & 63)
		taken := (63 - n) & 63 >> 3
		n |= 56
		e := d.lit[bits&(1<<litBits-1)]
		binary.LittleEndian.PutUint16(out[:], uint16(e>>8))
		k := uint(e >> 30)
		if e&(isMatch|special) == 0 {
			// Up to four entries of literals, at most 12 bits each.
			bits >>= e & 63
			n -= uint64(e)
			e = d.lit[bits&(1<<litBits-1)]
			binary.LittleEndian.PutUint16(out[k:], uint16(e>>8))
			k += uint(e >> 30)
			if e&(isMatch|special) == 0 {
				bits >>= e & 63
				n -= uint64(e)
				e = d.lit[bits&(1<<litBits-1)]
				binary.LittleEndian.PutUint16(out[k:], uint16(e>>8))
				k += uint(e >> 30)
				if e&(isMatch|special) == 0 {
					bits >>= e & 63
					n -= uint64(e)
					e = d.lit[bits&(1<<litBits-1)]
					binary.LittleEndian.PutUint16(out[k:], uint16(e>>8))
					k += uint(e >> 30)
					if e&(isMatch|special) == 0 {
						bits >>= e & 63
						n -= uint64(e)
						pos += int(taken)
						at += int(k)
						continue
					}
				}
			}
			bits |= binary.LittleEndian.Uint64(in[taken:]) << (n & 63)
			taken += (63 - n) & 63 >> 3
			n |= 56
		}
		pos += int(taken)
		length := int(e>>16&0xff) + 3
		if e&special != 0 {
			if e&leadsOn != 0 {
				bits >>= litBits
				n -= litBits
				e = d.lit[secondLevel(e, bits, 1<<litBits)&(litSize-1)]
				if e&literal != 0 {
					out[k] = byte(e >> 8)
					at += int(k) + 1
					bits >>= e & 63
					n -= uint64(e)
					continue
				}
				length = int(e>>16&0xff) + 3
			}
			if e&special != 0 {
				if e&extended == 0 {
					at += int(k)
					if done = e&blockEnd != 0; !done {
						err = errCode
						break
					}
					bits >>= e & 63
					n -= uint64(e)
					break
				}
				length += extraBits(e, bits)
			}
		}
		bits >>= e & 63
		n -= uint64(e)
		e = d.dist[bits&(1<<distBits-1)]
		if e&distSpecial != 0 {
			if e&distLeadsOn == 0 {
				err = errCode
				break
			}
			bits >>= distBits
			n -= distBits
			e = d.dist[secondLevel(e, bits, 1<<distBits)&(distSize-1)]
			if e&distSpecial != 0 {
				err = errCode
				break
			}
		}
		back := int(e>>16) + extraBits(e, bits)
		bits >>= e & 63
		n -= uint64(e)
		at += int(k)
		from := at - back
		if from < 0 {
			err = errDistance
			break
		}
		if back >= 16 {
			// The second copy may read bytes that the first has written.
			in := (*[32]byte)(buf[from : from+32 : from+32])
			out := (*[32]byte)(out[k:])
			*(*[16]byte)(out[:16]) = *(*[16]byte)(in[:16])
			*(*[16]byte)(out[16:]) = *(*[16]byte)(in[16:])
			for m := 32; m < length; m += 32 {
				copy16(buf, at+m, from+m)
				copy16(buf, at+m+16, from+m+16)
			}
		} else {
			repeat(buf, at, back, length)
		}
		at += length
	}
	d.pos, d.n = pos, uint(n&63)
	d.bits = bits & (1<<d.n - 1)
	return at, done, err
}

// copy16 copies 16 bytes within buf.
func copy16(buf []byte, to, from int) {
	*(*[16]byte)(buf[to : to+16 : to+16]) = *(*[16]byte)(buf[from : from+16 : from+16])
}
