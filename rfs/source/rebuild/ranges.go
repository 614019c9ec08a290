package rebuild

import (
	"context"
	"math"
	"time"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// ranges is a binary column of ranges, bounds included, sorted: VInt n, n of (from, to). Whole numbers and timestamps have one bit of sign,
// four bits with the number of bytes that follow (inverted if negative), three bits of the number; doubles 8 bytes and floats 4 that sort
// as the numbers do; addresses 16.
type ranges struct {
	column *lucene.Column
	bound  renderBound
}

// renderBound reads one bound of a range and writes it.
type renderBound func(in *codec.Input, dst []byte) []byte

// boundOf returns the reader and writer of the bounds of a range, timestamps in a format; nil for an unknown type or format.
func boundOf(f *node, format dateFormat) renderBound {
	switch f.kind {
	case "long_range":
		return wholeBound(math.MinInt64, math.MaxInt64)
	case "integer_range":
		return wholeBound(math.MinInt32, math.MaxInt32)
	case "date_range":
		if format == nil {
			return nil
		}
		return func(in *codec.Input, dst []byte) []byte {
			v := rangeLong(in)
			if v == math.MinInt64 || v == math.MaxInt64 {
				return append(dst, "null"...)
			}
			return format(dst, time.UnixMilli(v).UTC())
		}
	case "double_range":
		return func(in *codec.Input, dst []byte) []byte {
			return openBound(dst, sortableDouble(in.I64()^math.MinInt64), 64)
		}
	case "float_range":
		return func(in *codec.Input, dst []byte) []byte {
			return openBound(dst, sortableFloat(int64(in.I32()^math.MinInt32)), 32)
		}
	case "ip_range":
		return func(in *codec.Input, dst []byte) []byte { dst, _ = appendIP(dst, in.Take(16)); return dst }
	}
	return nil
}

// wholeBound returns a renderBound for whole numbers that writes null for the values of an open bound.
func wholeBound(least, most int64) renderBound {
	return func(in *codec.Input, dst []byte) []byte {
		v := rangeLong(in)
		if v == least || v == most {
			return append(dst, "null"...)
		}
		return appendLong(dst, v)
	}
}

func openBound(dst []byte, v float64, bits int) []byte {
	if math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return appendFloat(dst, v, bits)
}

// rangeLong reads a whole number whose encoding sorts like the number.
func rangeLong(in *codec.Input) int64 {
	head := in.U8()
	more, v := int(head>>3&15), int64(head&7)
	if head&0x80 == 0 {
		more, v = 15-more, -8|int64(head&7)
	}
	if more > 8 {
		in.Fail("whole number of %d bytes", more+1)
		return 0
	}
	for _, b := range in.Take(more) {
		v = v<<8 | int64(b)
	}
	return v
}

func (l *ranges) load(ctx context.Context, s *segment, out *values) error {
	n, err := l.column.Advance(ctx, s.doc)
	if err != nil || n == 0 {
		return err
	}
	b, err := l.column.Bytes(ctx, 0)
	if err != nil {
		return err
	}
	in := codec.NewInput(b)
	for range in.Count(2) {
		if err := out.next(); err != nil {
			return err
		}
		out.b = l.bound(in, append(out.b, `{"gte":`...))
		out.b = l.bound(in, append(out.b, `,"lte":`...))
		out.b = append(out.b, '}')
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left after the ranges", in.Left())
	}
	return in.Err()
}
