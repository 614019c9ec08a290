package codec

import "encoding/binary"

/*
Two ways of packing n values of b bits.

Byte-aligned PackedInts (Lucene 8 and before: chunk headers, old .fdx): one bit stream,
most significant bit first, ceil(n*b/8) bytes; version 0 rounds up to 8 bytes.

DirectReader arrays (doc values and monotonic sequences): value k lies in the bits
[k*b, k*b+b) of a bit stream; most significant first until Lucene 8, least significant
first (bit i is bit i%8 of byte i/8) since Lucene 9. Up to 3 bytes of padding follow.
*/

// PackedLen returns the length in bytes of n byte-aligned packed values.
func PackedLen(n, bits int, version int32) int64 {
	total := int64(n) * int64(bits)
	if version < 1 {
		return (total + 63) / 64 * 8
	}
	return (total + 7) / 8
}

// Unpack32 reads len(dst) values of 1–31 bits, most significant first, from src, which must
// hold PackedLen bytes.
func Unpack32(dst []int32, src []byte, bits int) {
	var acc uint64
	have, pos := 0, 0
	mask := uint64(1)<<bits - 1
	for i := range dst {
		if have < bits {
			if pos+4 <= len(src) {
				acc = acc<<32 | uint64(binary.BigEndian.Uint32(src[pos:]))
				pos += 4
				have += 32
			} else {
				for have < bits {
					acc = acc<<8 | uint64(src[pos])
					pos++
					have += 8
				}
			}
		}
		have -= bits
		dst[i] = int32(acc >> have & mask)
	}
}

// PackedAt returns value k of 0–64 bits in a bit stream with the most significant bit first.
func PackedAt(src []byte, bits int, k int64) uint64 { return bitsAt(src, k*int64(bits), bits, false) }

// bitsAt returns a value of 0–64 bits that starts at bit first of src; the caller has checked that src holds it.
func bitsAt(src []byte, first int64, bits int, le bool) uint64 {
	if at, used := first>>3, int(first&7); used+bits <= 64 && at+8 <= int64(len(src)) {
		if le {
			return binary.LittleEndian.Uint64(src[at:]) >> used & (1<<bits - 1)
		}
		return binary.BigEndian.Uint64(src[at:]) << used >> (64 - bits)
	}
	var v uint64
	for got := 0; got < bits; {
		at := first + int64(got)
		used := int(at & 7)
		take := min(8-used, bits-got)
		if le {
			v |= uint64(src[at>>3]) >> used & (1<<take - 1) << got
		} else {
			v = v<<take | uint64(src[at>>3])>>(8-used-take)&(1<<take-1)
		}
		got += take
	}
	return v
}

// DirectSpan returns the bytes of a DirectReader array that hold value k of 0–64 bits: their offset, which is -1 if it is too large for a
// file, and their number.
func DirectSpan(bits int, k int64) (off, n int64) {
	if bits == 0 {
		return 0, 0
	}
	if k < 0 || k > (1<<62)/int64(bits) {
		return -1, 0
	}
	first := k * int64(bits)
	return first >> 3, (first&7 + int64(bits) + 7) >> 3
}

// DirectIn returns value k of 0–64 bits from the bytes of its DirectSpan. It is faster if span has spare capacity.
func DirectIn(span []byte, bits int, k int64, le bool) uint64 {
	return bitsAt(span[:cap(span)], k*int64(bits)&7, bits, le)
}
