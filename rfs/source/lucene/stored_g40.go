package lucene

import (
	"context"
	"encoding/binary"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
Stored fields of Lucene 4.0, uncompressed: .fdx is a plain header and an i64 pointer into
.fdt per document; a document is VInt n, then n fields of

	VInt number | u8 bits (2 binary; bits>>3 & 7: 1 int, 2 long, 3 float, 4 double)
	numbers as i32 or i64, everything else VInt length and bytes

rfsd reads it in chunks of g40Chunk documents.
*/
type g40 struct{}

const g40Chunk = 64

func (g40) open(ctx context.Context, s *storedFields, _ *codec.Input) error {
	fdx, err := s.segment.files.core(".fdx")
	if err != nil {
		return err
	}
	t := &g40Index{pages: pages{src: fdx}, docs: int64(s.segment.MaxDoc), end: s.fdt.size}
	head, err := t.at(ctx, 0, min(fdx.size, codec.MaxHeaderLen))
	if err != nil {
		return err
	}
	x := codec.NewInput(head)
	x.Header()
	t.base = int64(x.Pos())
	if left := fdx.size - t.base; x.Err() == nil && left != 8*t.docs {
		x.Fail("%d bytes of pointers for %d documents", left, t.docs)
	}
	s.maxPointer = s.fdt.size
	s.index.entries, s.index.table = (t.docs+g40Chunk-1)/g40Chunk+1, t
	return fdx.wrap(x.Err())
}

// g40Index is the .fdx of Lucene 4.0, with a pointer per document.
type g40Index struct {
	pages
	base, docs, end int64
}

func (t *g40Index) entry(ctx context.Context, k int64) (doc, pointer int64, err error) {
	if doc = k * g40Chunk; doc >= t.docs {
		return t.docs, t.end, nil
	}
	p, err := t.at(ctx, t.base+8*doc, 8)
	if err != nil {
		return 0, 0, err
	}
	return doc, int64(binary.BigEndian.Uint64(p)), nil
}

// header finds the documents of the chunk by skipping over their fields.
func (g40) header(p []byte, at place, _ *storedFields, c *chunk) (int, error) {
	c.reset(at.first, at.end-at.first)
	in := codec.NewInput(p)
	for i := range c.lengths {
		start := in.Pos()
		for n := in.Count(3); n > 0; n-- {
			in.VInt()
			g40Value(in)
		}
		c.lengths[i] = int32(in.Pos() - start)
		c.total += int64(c.lengths[i])
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left after %d documents", in.Left(), len(c.lengths))
	}
	return 0, in.Err()
}

// g40Value reads the bits and the value of a field; value is nil for a number.
func g40Value(in *codec.Input) (bits uint8, value []byte) {
	bits = in.U8()
	switch bits >> 3 & 7 {
	case 0:
		value = in.Take(int(in.VInt()))
	case 1, 3:
		in.Take(4)
	case 2, 4:
		in.Take(8)
	default:
		in.Fail("field of bits %02x", bits)
	}
	return bits, value
}

func (g40) parse(doc []byte, _ int32, t fieldTable, rec *Record) error {
	in := codec.NewInput(doc)
	for n := in.Count(3); n > 0; n-- {
		number := in.VInt()
		bits, value := g40Value(in)
		if number < 0 || int(number) >= len(t) {
			in.Fail("field %d is not in the field infos", number)
			break
		}
		rec.take(t[number], bits&2 == 0, value)
	}
	return in.Err()
}
