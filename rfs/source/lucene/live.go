package lucene

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// bitset has one bit per document of a segment: bit d%64 of word d/64.
type bitset []uint64

func (b bitset) get(d int32) bool { return b[d>>6]>>(d&63)&1 != 0 }

// count returns the number of set bits.
func (b bitset) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
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
36, ceil(maxDoc/64) of u64, footer. A set bit is a live document. Soft-deleted documents
count as live here.

.del, the live documents of a segment of Lucene 4, <seg>_<gen>.del, big-endian:

	i32 -2, plain header BitVector v0..v2; the oldest form lacks both
	i32 size; -1: the gaps form follows, after another i32 size
	i32 count
	bits  ceil(size/8) bytes, bit d&7 of byte d>>3
	gaps  repeat: VInt distance to the next byte, u8 that byte
	v2 footer

A set bit is a live document from v1 on and a dead one before. From v1 on, gaps list the
bytes that are not all ones until they contain size-count zero bits; before v1, the bytes
that are not zero until they contain count ones.
*/

// liveDocs reads the live documents of a segment in pages, fastest in ascending order. It belongs to one goroutine.
type liveDocs struct {
	pages
	maxDoc   int32
	off, n   int64 // the bits, in bytes
	order    binary.ByteOrder
	inverted bool // a set bit is a dead document
	exact    bool // no bit after the last document may be set
	footed   bool
	gaps     *gapBytes // instead of bits
}

// liveFile is a file of live documents.
type liveFile struct {
	src *source
	old bool // a .del
	id  string
	gen int64
}

func (f *liveFile) open(ctx context.Context, maxDoc int32) (*liveDocs, error) {
	if f.old {
		return openDel(ctx, f.src, maxDoc)
	}
	return openLiv(ctx, f.src, f.id, f.gen, maxDoc)
}

// openLiv reads the head of a .liv file.
func openLiv(ctx context.Context, src *source, id string, gen int64, maxDoc int32) (*liveDocs, error) {
	l := &liveDocs{pages: pages{src: src}, maxDoc: maxDoc, n: (int64(maxDoc) + 63) / 64 * 8, order: binary.BigEndian, exact: true, footed: true}
	head, err := l.at(ctx, 0, min(src.size, codec.MaxHeaderLen))
	if err != nil {
		return nil, err
	}
	in := codec.NewInput(head)
	h := in.IndexHeader()
	switch {
	case in.Err() != nil:
		return nil, src.wrap(in.Err())
	case h.Codec != "Lucene50LiveDocs" && h.Codec != "Lucene90LiveDocs":
		return nil, fmt.Errorf("%s: live documents of codec %q are unknown: %w", src.name, h.Codec, fault.ErrUnsupported)
	case h.Suffix != codec.Base36(gen):
		in.Fail("suffix %q where %q is expected", h.Suffix, codec.Base36(gen))
	case id != "" && h.ID != id:
		in.Fail("the file belongs to segment %x, not %x", h.ID, id)
	}
	if codec.LittleEndian(h.Codec) {
		l.order = binary.LittleEndian
	}
	l.off = int64(in.Pos())
	if left := src.size - l.off - l.n; in.Err() == nil && left != codec.FooterLen {
		in.Fail("%d bytes left where the footer starts", left)
	}
	return l, src.wrap(in.Err())
}

// openDel reads the head of a .del file.
func openDel(ctx context.Context, src *source, maxDoc int32) (*liveDocs, error) {
	l := &liveDocs{pages: pages{src: src}, maxDoc: maxDoc, n: (int64(maxDoc) + 7) / 8, order: binary.LittleEndian}
	head, err := l.at(ctx, 0, min(src.size, codec.MaxHeaderLen))
	if err != nil {
		return nil, err
	}
	in := codec.NewInput(head)
	version := int32(-1)
	size := in.I32()
	if size == -2 {
		h := in.Header()
		if in.Err() == nil && (h.Codec != "BitVector" || h.Version < 0 || h.Version > 2) {
			return nil, fmt.Errorf("%s: deleted documents of codec %q version %d are unknown: %w", src.name, h.Codec, h.Version, fault.ErrUnsupported)
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
	l.off, l.inverted, l.footed = int64(in.Pos()), version < 1, version >= 2
	if gaps {
		l.gaps = &gapBytes{first: l.off, n: int(l.n), ones: l.inverted, bits: int(count)}
		if !l.gaps.ones {
			l.gaps.bits = int(size - count)
		}
		l.gaps.rewind()
	} else if left := src.size - l.off - l.n; in.Err() == nil && (left < 0 || l.footed && left != codec.FooterLen) {
		in.Fail("%d bytes left where the footer starts", left)
	}
	return l, src.wrap(in.Err())
}

// fill sets the bits of the live documents, starting at from, and clears the others: document d is bit d%64 of word
// (d-from)/64. from and the number of documents that the words represent are multiples of 64.
func (l *liveDocs) fill(ctx context.Context, from int32, words bitset) error {
	clear(words)
	first := int64(from) / 8
	size := min(l.n-first, 8*int64(len(words)))
	if size <= 0 {
		return nil
	}
	if l.gaps != nil {
		if err := l.gaps.fill(ctx, &l.pages, first, words, l.footed); err != nil {
			return err
		}
	} else {
		p, err := l.at(ctx, l.off+first, size)
		if err != nil {
			return err
		}
		for i := range int(size / 8) {
			words[i] = l.order.Uint64(p[8*i:])
		}
		for i := size &^ 7; i < size; i++ {
			words[i>>3] |= uint64(p[i]) << (i & 7 * 8)
		}
	}
	if l.inverted {
		for i := range words {
			words[i] = ^words[i]
		}
	}
	return l.tail(from, words)
}

// tail clears the bits after the last document, which must already be clear in a .liv.
func (l *liveDocs) tail(from int32, words bitset) error {
	for i := range words {
		left := int64(l.maxDoc) - int64(from) - 64*int64(i)
		if left >= 64 {
			continue
		}
		beyond := ^uint64(0) << max(left, 0)
		if l.exact && words[i]&beyond != 0 {
			return l.src.corrupt(l.off, "a document beyond the last, %d, is alive", l.maxDoc-1)
		}
		words[i] &^= beyond
	}
	return nil
}

// gapBytes reads the bytes that the gaps form of a .del lists, until they contain the stated number of bits.
type gapBytes struct {
	first int64 // where they start
	n     int   // number of bytes for all documents
	ones  bool  // ones are counted, and bytes that are not listed are 0; else zeros, and 0xFF
	bits  int

	off  int64
	left int // bits still to be found
	at   int // index of the last byte read
	held int // that byte if it was not used yet; -1: none
}

func (g *gapBytes) rewind() { g.off, g.left, g.at, g.held = g.first, g.bits, 0, -1 }

func (g *gapBytes) fill(ctx context.Context, p *pages, first int64, words bitset, footed bool) error {
	if !g.ones {
		for i := range words {
			words[i] = ^uint64(0)
		}
	}
	if int64(g.at) >= first+8*int64(len(words)) || int64(g.at) > first && g.held < 0 {
		g.rewind()
	}
	for {
		if g.held < 0 {
			if done, err := g.next(ctx, p, footed); done || err != nil {
				return err
			}
		}
		k := int64(g.at) - first
		if k >= 8*int64(len(words)) {
			return nil
		}
		if k >= 0 {
			words[k>>3] = words[k>>3]&^(0xFF<<(k&7*8)) | uint64(g.held)<<(k&7*8)
		}
		g.held = -1
	}
}

// next reads the next listed byte; done reports that none is left.
func (g *gapBytes) next(ctx context.Context, p *pages, footed bool) (done bool, err error) {
	if g.left <= 0 {
		if left := p.src.size - g.off; footed && left != codec.FooterLen {
			return true, p.src.corrupt(g.off, "%d bytes left where the footer starts", left)
		}
		return true, nil
	}
	b, err := p.at(ctx, g.off, min(6, p.src.size-g.off))
	if err != nil {
		return true, err
	}
	in := codec.NewInput(b)
	step, c := in.VInt(), in.U8()
	if in.Err() == nil && (step < 0 || int(step) >= g.n-g.at) {
		in.Fail("byte %d+%d of %d", g.at, step, g.n)
	}
	if in.Err() != nil {
		return true, p.src.wrapAt(in.Err(), g.off)
	}
	g.at, g.held, g.off = g.at+int(step), int(c), g.off+int64(in.Pos())
	if g.ones {
		g.left -= bits.OnesCount8(c)
	} else {
		g.left -= 8 - bits.OnesCount8(c)
	}
	return false, nil
}
