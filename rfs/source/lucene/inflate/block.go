package inflate

import "encoding/binary"

const (
	maxMatch = 258
	// room is the maximum output of one round of the fast loop: four literals, and a match in steps of 16 bytes.
	room = 4 + maxMatch + 16
	// ahead is the maximum number of bytes that it reads ahead: two fills.
	ahead = 16
)

// block decodes a compressed block: fast as long as both buffers are far from their ends, then
// symbol by symbol.
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
		if e&leadsOn != 0 && e&literal == 0 {
			if d.n < litBits {
				return at, errShort
			}
			d.drop(litBits)
			e = d.lit[(e>>16+uint32(d.bits)&(1<<(e>>8&15)-1))&(litSize-1)]
		}
		n := uint(e & 63)
		if n > d.n {
			return at, errShort
		}
		switch {
		case e&literal != 0:
			if at == len(buf) {
				return at, errLong
			}
			buf[at] = byte(e >> 16)
			at++
			d.drop(n)
			continue
		case e&blockEnd != 0:
			d.drop(n)
			return at, nil
		case e&exception != 0:
			return at, errCode
		}
		length := int(e>>16) + int(d.bits&(1<<n-1)>>(e>>8&15))
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

// distance reads the distance of a match.
func (d *Decoder) distance() (int, error) {
	e := d.dist[d.bits&(1<<distBits-1)]
	if e&leadsOn != 0 {
		if d.n < distBits {
			return 0, errShort
		}
		d.drop(distBits)
		e = d.dist[(e>>16+uint32(d.bits)&(1<<(e>>8&15)-1))&(distSize-1)]
	}
	n := uint(e & 63)
	switch {
	case e&exception != 0:
		return 0, errCode
	case n > d.n:
		return 0, errShort
	}
	dist := int(e>>16) + int(d.bits&(1<<n-1)>>(e>>8&15))
	d.drop(n)
	return dist, nil
}

// repeat copies n bytes from dist bytes before at; an overlapping copy doubles the repeated part
// until it is long enough.
func repeat(buf []byte, at, dist, n int) {
	from := at - dist
	for n > 0 {
		c := copy(buf[at:at+min(n, at-from)], buf[from:at])
		at += c
		n -= c
	}
}

// fast decodes until the block ends, which it reports, or a buffer is near its end.
func (d *Decoder) fast(buf []byte, at int) (int, bool, error) {
	src, pos, bits, n := d.src, d.pos, d.bits, d.n
	lit, dist := &d.lit, &d.dist
	done := false
	var err error
	for pos+ahead <= len(src) && at+room <= len(buf) {
		bits |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		e := lit[bits&(1<<litBits-1)]
		if e&literal != 0 {
			// Up to four literals of at most 11 bits each.
			bits >>= e & 63
			n -= uint(e & 63)
			buf[at] = byte(e >> 16)
			at++
			e = lit[bits&(1<<litBits-1)]
			if e&literal != 0 {
				bits >>= e & 63
				n -= uint(e & 63)
				buf[at] = byte(e >> 16)
				at++
				e = lit[bits&(1<<litBits-1)]
				if e&literal != 0 {
					bits >>= e & 63
					n -= uint(e & 63)
					buf[at] = byte(e >> 16)
					at++
					e = lit[bits&(1<<litBits-1)]
					if e&literal != 0 {
						bits >>= e & 63
						n -= uint(e & 63)
						buf[at] = byte(e >> 16)
						at++
						continue
					}
				}
			}
			bits |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
			pos += int((63 - n) >> 3)
			n |= 56
		}
		if e&exception != 0 {
			if e&leadsOn != 0 {
				bits >>= litBits
				n -= litBits
				e = lit[(e>>16+uint32(bits)&(1<<(e>>8&15)-1))&(litSize-1)]
			}
			if e&literal != 0 {
				bits >>= e & 63
				n -= uint(e & 63)
				buf[at] = byte(e >> 16)
				at++
				continue
			}
			if e&exception != 0 {
				if e&blockEnd == 0 {
					err = errCode
					break
				}
				bits >>= e & 63
				n -= uint(e & 63)
				done = true
				break
			}
		}
		length := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint(e & 63)
		e = dist[bits&(1<<distBits-1)]
		if e&exception != 0 {
			if e&leadsOn == 0 {
				err = errCode
				break
			}
			bits >>= distBits
			n -= distBits
			e = dist[(e>>16+uint32(bits)&(1<<(e>>8&15)-1))&(distSize-1)]
			if e&exception != 0 {
				err = errCode
				break
			}
		}
		back := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint(e & 63)
		from := at - back
		if from < 0 {
			err = errDistance
			break
		}
		if back >= 16 {
			copy16(buf, at, from)
			if length > 16 {
				copy16(buf, at+16, from+16)
				if length > 32 {
					for k := 32; k < length; k += 16 {
						copy16(buf, at+k, from+k)
					}
				}
			}
		} else {
			repeat(buf, at, back, length)
		}
		at += length
	}
	d.pos, d.n = pos, n
	d.bits = bits & (1<<n - 1)
	return at, done, err
}

// copy16 copies 16 bytes within buf.
func copy16(buf []byte, to, from int) {
	*(*[16]byte)(buf[to:]) = *(*[16]byte)(buf[from:])
}
