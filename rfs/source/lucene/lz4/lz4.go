// Package lz4 decodes the bare LZ4 blocks of Lucene's stored fields, which state neither
// their raw nor their compressed length: a block ends when the wanted number of bytes has
// been produced.
//
//	token (high nibble literals, low nibble match length - 4) | [more literal lengths] |
//	literals | u16 little-endian match offset | [more match lengths]
//
// A nibble of 15 is followed by bytes that are added until one is not 255. The last
// sequence has literals only. Matches may overlap what they produce, and may reach into a
// dictionary before the output.
package lz4

import (
	"encoding/binary"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

var (
	errShort  = fmt.Errorf("lz4: compressed data ends early: %w", fault.ErrCorrupt)
	errLong   = fmt.Errorf("lz4: more data than the stated length: %w", fault.ErrCorrupt)
	errOffset = fmt.Errorf("lz4: match reaches before the beginning: %w", fault.ErrCorrupt)
)

// Decode fills buf[start:] from src and returns the number of bytes of src that it consumed. Matches may reach back to buf[0]: buf[:start]
// is the dictionary. All errors are fault.ErrCorrupt.
func Decode(buf []byte, start int, src []byte) (int, error) {
	d, s := start, 0
	for {
		if s >= len(src) {
			return s, errShort
		}
		token := int(src[s])
		s++
		lits := token >> 4
		match := token & 15
		// Most sequences are short: one 16-byte copy of literals, one 18-byte copy of a
		// match, when neither buffer is near its end.
		if lits < 15 && s+18 <= len(src) && d+32 <= len(buf) {
			copy16(buf[d:], src[s:])
			d += lits
			s += lits
			off := int(binary.LittleEndian.Uint16(src[s:]))
			s += 2
			if match < 15 && off >= 18 && off <= d && d+18 <= len(buf) {
				from := d - off
				copy16(buf[d:], buf[from:])
				binary.LittleEndian.PutUint16(buf[d+16:], binary.LittleEndian.Uint16(buf[from+16:]))
				d += match + 4
				if d >= len(buf) {
					return s, end(d, len(buf))
				}
				continue
			}
			s -= 2
		} else {
			var err error
			if lits == 15 {
				if lits, s, err = more(lits, s, src); err != nil {
					return s, err
				}
			}
			if lits > len(buf)-d {
				return s, errLong
			}
			if lits > len(src)-s {
				return s, errShort
			}
			copy(buf[d:d+lits], src[s:s+lits])
			d += lits
			s += lits
		}
		if d == len(buf) {
			return s, nil
		}
		if s+2 > len(src) {
			return s, errShort
		}
		off := int(binary.LittleEndian.Uint16(src[s:]))
		s += 2
		if match == 15 {
			var err error
			if match, s, err = more(match, s, src); err != nil {
				return s, err
			}
		}
		match += 4
		if off == 0 || off > d {
			return s, errOffset
		}
		if match > len(buf)-d {
			return s, errLong
		}
		copyMatch(buf, d, off, match)
		d += match
		if d == len(buf) {
			return s, nil
		}
	}
}

func end(d, n int) error {
	if d > n {
		return errLong
	}
	return nil
}

func copy16(dst, src []byte) {
	_, _ = dst[15], src[15]
	binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
	binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(src[8:]))
}

// copyMatch copies n bytes from off bytes before d to d; an overlapping copy doubles the repeated part until it is long enough.
func copyMatch(buf []byte, d, off, n int) {
	from := d - off
	for n > 0 {
		c := copy(buf[d:d+min(n, d-from)], buf[from:d])
		d += c
		n -= c
	}
}

// more returns the length n extended by the bytes at s, and the offset after them.
func more(n, s int, src []byte) (int, int, error) {
	for {
		if s >= len(src) {
			return 0, s, errShort
		}
		c := src[s]
		s++
		n += int(c)
		if c != 255 {
			return n, s, nil
		}
	}
}

// Measure parses src without decoding it and returns the number of its bytes that expand to n bytes of output. It proves that a large
// stated length is true before memory is allocated for it.
func Measure(src []byte, dict int, n int) (int, error) {
	d, s := 0, 0
	for {
		if s >= len(src) {
			return s, errShort
		}
		token := int(src[s])
		s++
		lits, match := token>>4, token&15
		var err error
		if lits == 15 {
			if lits, s, err = more(lits, s, src); err != nil {
				return s, err
			}
		}
		if lits > len(src)-s {
			return s, errShort
		}
		s += lits
		if d += lits; d >= n {
			return s, end(d, n)
		}
		if s+2 > len(src) {
			return s, errShort
		}
		off := int(binary.LittleEndian.Uint16(src[s:]))
		s += 2
		if off == 0 || off > d+dict {
			return s, errOffset
		}
		if match == 15 {
			if match, s, err = more(match, s, src); err != nil {
				return s, err
			}
		}
		if d += match + 4; d >= n {
			return s, end(d, n)
		}
	}
}
