package codec

import "encoding/binary"

/*
Two ways of packing n values of b bits.

Byte-aligned PackedInts (Lucene 8 and before: chunk headers, old .fdx): one bit stream,
most significant bit first, ceil(n*b/8) bytes; version 0 rounds up to 8 bytes.

DirectReader arrays (doc values and monotonic sequences): value k lies in the bits
[k*b, k*b+b) of a bit stream; most significant first until Lucene 8, least significant
first (bit i is bit i%8 of byte i/8) since 9. Up to 3 bytes of padding follow.
*/

// PackedLen is the length in bytes of n byte-aligned packed values.
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

// PackedAt is value k of 0–64 bits in a bit stream with the most significant bit first.
func PackedAt(src []byte, bits int, k int64) uint64 {
	if bits == 0 {
		return 0
	}
	first := k * int64(bits)
	var v uint64
	got := 0
	for got < bits {
		at := first + int64(got)
		free := 8 - int(at&7)
		take := min(free, bits-got)
		b := uint64(src[at>>3]) >> (free - take) & (1<<take - 1)
		v = v<<take | b
		got += take
	}
	return v
}

// directAt is value k of 1–64 bits in a DirectReader array; the caller has checked that
// the array holds it.
func directAt(src []byte, bits int, k int64, le bool) uint64 {
	if !le {
		return PackedAt(src, bits, k)
	}
	first := k * int64(bits)
	var v uint64
	for got := 0; got < bits; {
		at := first + int64(got)
		shift := int(at & 7)
		take := min(8-shift, bits-got)
		v |= uint64(src[at>>3]) >> shift & (1<<take - 1) << got
		got += take
	}
	return v
}

// Direct is a DirectReader array of n values.
type Direct struct {
	data []byte
	bits int
	le   bool
}

// NewDirect checks that data holds n values of the given width and byte order.
func NewDirect(data []byte, n int64, bits int, le bool) (Direct, error) {
	if bits < 0 || bits > 64 {
		return Direct{}, Errorf(0, "packed values of %d bits", bits)
	}
	if n < 0 || bits > 0 && n > (int64(len(data))*8)/int64(bits) {
		return Direct{}, Errorf(0, "%d bytes are too few for %d values of %d bits", len(data), n, bits)
	}
	return Direct{data: data, bits: bits, le: le}, nil
}

// At is value k, which must be less than the n of NewDirect.
func (d Direct) At(k int64) uint64 {
	if d.bits == 0 {
		return 0
	}
	return directAt(d.data, d.bits, k, d.le)
}
