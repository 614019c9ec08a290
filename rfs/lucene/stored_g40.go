package lucene

import (
	"context"
	"encoding/binary"

	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

/*
Stored fields of Lucene 4.0, not compressed: .fdx is a plain header and an i64 pointer into
.fdt per document; a document is VInt n, then n fields of

	VInt number | u8 bits (2 binary; bits>>3 & 7: 1 int, 2 long, 3 float, 4 double)
	numbers as i32 or i64, everything else VInt length and bytes

rfsd reads it in chunks of g40Chunk documents.
*/
type g40 struct{}

const g40Chunk = 64

func (g40) open(ctx context.Context, s *storedFields, _ *codec.Input) error {
	b, base, err := g40Pointers(ctx, s)
	if err != nil {
		return err
	}
	s.maxPointer = s.fdt.size
	n := int32(s.segment.MaxDoc)
	for d := int32(0); d < n; d += g40Chunk {
		s.index.docs = append(s.index.docs, d)
		s.index.pointers = append(s.index.pointers, int64(binary.BigEndian.Uint64(b[base+8*int(d):])))
	}
	s.index.docs = append(s.index.docs, n)
	s.index.pointers = append(s.index.pointers, s.maxPointer)
	return nil
}

// g40Pointers reads .fdx and checks that it has a pointer per document from base on.
func g40Pointers(ctx context.Context, s *storedFields) ([]byte, int, error) {
	fdx, err := s.segment.files.core(".fdx")
	if err != nil {
		return nil, 0, err
	}
	b, err := fdx.readAt(ctx, 0, fdx.size)
	if err != nil {
		return nil, 0, err
	}
	x := codec.NewInput(b)
	x.Header()
	if x.Err() == nil && x.Left() != 8*s.segment.MaxDoc {
		x.Fail("%d bytes of pointers for %d documents", x.Left(), s.segment.MaxDoc)
	}
	return b, x.Pos(), fdx.wrap(x.Err())
}

// header finds the documents of the chunk by walking over their fields.
func (g40) header(p []byte, k int, s *storedFields, c *chunk) (int, error) {
	c.reset(s.index.docs[k], s.index.docs[k+1]-s.index.docs[k])
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

// g40Value passes over the bits and the value of a field; the bytes are nil for a number.
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
