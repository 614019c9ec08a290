package lucene

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// bitset has one bit per document of a segment: bit d%64 of word d/64.
type bitset []uint64

func newBitset(n int32) bitset { return make(bitset, (int64(n)+63)/64) }

func (b bitset) get(d int32) bool { return b[d>>6]>>(d&63)&1 != 0 }
func (b bitset) set(d int32)      { b[d>>6] |= 1 << (d & 63) }

// count returns the number of set bits among the first n, which must be all that can be set.
func (b bitset) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// fill sets the first n bits.
func (b bitset) fill(n int32) {
	for i := range b {
		b[i] = ^uint64(0)
	}
	if n&63 != 0 {
		b[n>>6] = 1<<(n&63) - 1
	}
}

// any reports whether one of the bits [from, to) is set.
func (b bitset) any(from, to int32) bool {
	for from < to {
		w := b[from>>6] >> (from & 63)
		if n := to - from; n < 64 {
			w &= 1<<n - 1
		}
		if w != 0 {
			return true
		}
		from = (from>>6 + 1) << 6
	}
	return false
}

/*
.liv, the live documents of a segment from Lucene 5.0 on, <seg>_<gen>.liv: index header
Lucene50LiveDocs (big-endian) or Lucene90LiveDocs (little-endian) with suffix gen in base
36, ceil(maxDoc/64) of u64, footer. A set bit is a living document. Soft-deleted documents
live here.
*/
func parseLive(b []byte, id string, gen int64, maxDoc int32) (bitset, error) {
	in := codec.NewInput(b)
	h := in.IndexHeader()
	switch {
	case in.Err() != nil:
		return nil, in.Err()
	case h.Codec != "Lucene50LiveDocs" && h.Codec != "Lucene90LiveDocs":
		return nil, fmt.Errorf("live documents of codec %q are not known: %w", h.Codec, fault.ErrUnsupported)
	case h.Suffix != codec.Base36(gen):
		in.Fail("suffix %q where %q is expected", h.Suffix, codec.Base36(gen))
	case id != "" && h.ID != id:
		in.Fail("the file belongs to segment %x, not %x", h.ID, id)
	}
	words := (int64(maxDoc) + 63) / 64
	p := in.Take(int(words) * 8)
	if in.Err() == nil && in.Left() != codec.FooterLen {
		in.Fail("%d bytes left where the footer begins", in.Left())
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	live := newBitset(maxDoc)
	var order binary.ByteOrder = binary.BigEndian
	if codec.LittleEndian(h.Codec) {
		order = binary.LittleEndian
	}
	for i := range live {
		live[i] = order.Uint64(p[8*i:])
	}
	return live, tailIsClear(live, maxDoc)
}

// tailIsClear checks that no document beyond maxDoc is alive.
func tailIsClear(b bitset, maxDoc int32) error {
	if maxDoc&63 != 0 && b[maxDoc>>6]>>(maxDoc&63) != 0 {
		return codec.Errorf(-1, "a document beyond the last, %d, is alive", maxDoc-1)
	}
	return nil
}

/*
.del, the live documents of a segment of Lucene 4, <seg>_<gen>.del, big-endian:

	i32 -2, plain header BitVector v0..v2; without them the form of before the header
	i32 size; -1 says that the form of gaps follows: i32 size
	i32 count
	bits  ceil(size/8) bytes, bit d&7 of byte d>>3
	gaps  repeat: VInt distance to the next byte, u8 that byte
	v2 footer

A set bit is a living document from v1 on and a dead one before. Gaps list, from v1 on,
the bytes that are not all ones until size-count zero bits are seen; before, those that
are not zero until count ones are seen.
*/
func parseDel(b []byte, maxDoc int32) (bitset, error) {
	in := codec.NewInput(b)
	version := int32(-1)
	size := in.I32()
	if size == -2 {
		h := in.Header()
		if in.Err() == nil && (h.Codec != "BitVector" || h.Version < 0 || h.Version > 2) {
			return nil, fmt.Errorf("deleted documents of codec %q version %d are not known: %w", h.Codec, h.Version, fault.ErrUnsupported)
		}
		version = h.Version
		size = in.I32()
	}
	gaps := size == -1
	if gaps {
		size = in.I32()
	}
	count := in.I32()
	if in.Err() == nil && (size != maxDoc || count < 0 || count > size) {
		in.Fail("%d of %d bits for %d documents", count, size, maxDoc)
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	n := (int(size) + 7) / 8
	var raw []byte
	if gaps {
		raw = readGaps(in, n, size, count, version)
	} else {
		raw = in.Take(n)
	}
	if version >= 2 && in.Err() == nil && in.Left() != codec.FooterLen {
		in.Fail("%d bytes left where the footer begins", in.Left())
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	return bitsOf(raw, maxDoc, version < 1), nil
}

func readGaps(in *codec.Input, n int, size, count, version int32) []byte {
	raw := make([]byte, n)
	ones := version < 1
	left := int(count)
	if !ones {
		left = int(size - count)
		for i := range raw {
			raw[i] = 0xFF
		}
	}
	at := 0
	for left > 0 && in.Err() == nil {
		step := in.VInt()
		c := in.U8()
		if step < 0 || int(step) >= n-at {
			in.Fail("byte %d+%d of %d", at, step, n)
			break
		}
		at += int(step)
		raw[at] = c
		if ones {
			left -= bits.OnesCount8(c)
		} else {
			left -= 8 - bits.OnesCount8(c)
		}
	}
	return raw
}

// bitsOf returns a bitset of bytes; inverted when a set bit means a dead document. Bits
// beyond the last document, which writers leave as they are, are cleared.
func bitsOf(raw []byte, n int32, inverted bool) bitset {
	b := newBitset(n)
	for i, c := range raw {
		if inverted {
			c = ^c
		}
		b[i>>3] |= uint64(c) << (i & 7 * 8)
	}
	if n&63 != 0 {
		b[n>>6] &= 1<<(n&63) - 1
	}
	return b
}
