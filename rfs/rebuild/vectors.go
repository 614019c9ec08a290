package rebuild

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
	"github.com/rfsd/rfsd/rfs/lucene/columns"
)

// littleEndian is the version from which on vectors lie in little-endian numbers.
const littleEndian = 8_09_00_99

// vector is a binary column of vectors that are not indexed: the numbers, then four bytes of their length (in the sense
// of geometry) or none.
type vector struct {
	column *lucene.Column
	dims   int // numbers that are written
	width  int // bytes of each
	order  binary.ByteOrder
}

// vectorLayers are those of a vector that lies in doc values; what is indexed lies in files that are not read.
func (s *segment) vectorLayers(ctx context.Context, f *node) ([]layer, string, error) {
	l := &vector{dims: f.params.Dims, order: binary.LittleEndian}
	if s.created < littleEndian {
		l.order = binary.BigEndian
	}
	switch f.params.ElementType {
	case "", "float":
		l.width = 4
	case "bfloat16":
		l.width = 2
	case "byte":
		l.width = 1
	case "bit":
		l.dims, l.width = l.dims/8, 1
	default:
		return nil, "the type of its elements is not known", nil
	}
	if f.params.indexed(s.created) {
		return nil, "vectors that are indexed are not read", nil
	}
	var err error
	if l.column, err = s.column(ctx, f.path); l.column == nil || err != nil {
		return nil, "", err
	}
	if l.dims <= 0 {
		return nil, "the mapping does not say how many numbers it has", nil
	}
	return []layer{l}, expect(l.column, columns.Binary), nil
}

func (l *vector) load(ctx context.Context, s *segment, out *values) error {
	n, err := l.column.Advance(ctx, s.doc)
	if err != nil || n == 0 {
		return err
	}
	b, err := l.column.Bytes(ctx, 0)
	if err != nil {
		return err
	}
	if rest := len(b) - l.dims*l.width; rest != 0 && rest != 4 {
		return codec.Errorf(0, "vector of %d numbers in %d bytes", l.dims, len(b))
	}
	out.array = true
	for i := range l.dims {
		if err := out.next(); err != nil {
			return err
		}
		switch v := b[i*l.width:]; l.width {
		case 4:
			out.b = appendFloat(out.b, float64(math.Float32frombits(l.order.Uint32(v))), 32)
		case 2:
			out.b = appendFloat(out.b, float64(math.Float32frombits(uint32(l.order.Uint16(v))<<16)), 32)
		default:
			out.b = strconv.AppendInt(out.b, int64(int8(v[0])), 10)
		}
	}
	return nil
}
