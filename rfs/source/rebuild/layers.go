package rebuild

import (
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// renderNumber and renderBytes append one value as JSON; nil states that the type cannot have it.
type (
	renderNumber func(dst []byte, v int64) []byte
	renderBytes  func(dst, v []byte) []byte
)

// order reads <field>.offsets: the indices of an array's values among its distinct, sorted values.
type order struct {
	column *lucene.Column
	places []int // -1 is null
}

// maxPlaces bounds the values of one array.
const maxPlaces = 1 << 24

// load reads the order of a document, and reports whether it has one. It returns ErrTooLong if the values would exceed most bytes.
func (o *order) load(ctx context.Context, doc int32, most int) (bool, error) {
	if o == nil {
		return false, nil
	}
	n, err := o.column.Advance(ctx, doc)
	if err != nil || n == 0 {
		return false, err
	}
	b, err := o.column.Bytes(ctx, 0)
	if err != nil {
		return false, err
	}
	o.places, err = appendPlaces(o.places[:0], b, most)
	return true, err
}

// appendPlaces appends the indices of the values of one array. Each value takes at least two bytes of at most most; 0 means no limit.
func appendPlaces(dst []int, b []byte, most int) ([]int, error) {
	in := codec.NewInput(b)
	count := codec.ZigZag64(int64(uint32(in.VInt())))
	if in.Err() == nil && (count < 0 || count > int64(in.Left()) || count > maxPlaces) {
		in.Fail("order of %d values in %d bytes", count, in.Left())
	}
	if in.Err() != nil {
		return dst, in.Err()
	}
	if err := fits(2*int(count), most); err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, int(count))
	for range count {
		dst = append(dst, int(codec.ZigZag64(int64(uint32(in.VInt())))))
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left in an order", in.Left())
	}
	return dst, in.Err()
}

// write writes n distinct, sorted values in the order of the array.
func (o *order) write(out *values, n int, value func(i int) error) error {
	out.array = true
	for _, place := range o.places {
		if err := out.next(); err != nil {
			return err
		}
		switch {
		case place == -1:
			out.b = append(out.b, "null"...)
		case place < 0 || place >= n:
			return codec.Errorf(0, "value %d of %d in an order", place, n)
		default:
			if err := value(place); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers is a column of numbers.
type numbers struct {
	column   *lucene.Column // nil if no document of the segment has a value
	order    *order
	render   renderNumber
	unsigned bool // the column sorts them as signed numbers, the cluster as unsigned ones
	all      []int64
}

func (l *numbers) load(ctx context.Context, s *segment, out *values) error {
	ordered, err := l.order.load(ctx, s.doc, out.most)
	if err != nil {
		return err
	}
	n := 0
	if l.column != nil {
		if n, err = l.column.Advance(ctx, s.doc); err != nil {
			return err
		}
	}
	one := func(v int64) error {
		mark := len(out.b)
		if out.b = l.render(out.b, v); len(out.b) <= mark {
			return &Unknown{Reason: "a number that the type cannot have"}
		}
		return nil
	}
	if !ordered && !l.unsigned {
		for i := range n {
			v, err := l.column.Number(ctx, i)
			if err == nil {
				err = out.next()
			}
			if err == nil {
				err = one(v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.readAll(ctx, n, out.most); err != nil {
		return err
	}
	if ordered {
		l.all = slices.Compact(l.all)
		return l.order.write(out, len(l.all), func(i int) error { return one(l.all[i]) })
	}
	if i := slices.IndexFunc(l.all, func(v int64) bool { return v >= 0 }); i > 0 {
		l.all = slices.Concat(l.all[i:], l.all[:i])
	}
	for _, v := range l.all {
		if err := out.next(); err != nil {
			return err
		}
		if err := one(v); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads the n numbers of the document, up to most bytes; 0 means no limit.
func (l *numbers) readAll(ctx context.Context, n, most int) error {
	const size = 8
	l.all = l.all[:0]
	if err := fits(n*size, most); err != nil {
		return err
	}
	for i := range n {
		v, err := l.column.Number(ctx, i)
		if err != nil {
			return err
		}
		l.all = append(l.all, v)
	}
	return nil
}

// terms is a column of sorted terms.
type terms struct {
	column *lucene.Column
	order  *order
	render renderBytes
}

func (l *terms) load(ctx context.Context, s *segment, out *values) error {
	n := 0
	if l.column != nil {
		var err error
		if n, err = l.column.Advance(ctx, s.doc); err != nil {
			return err
		}
	}
	one := func(i int) error {
		b, err := l.column.Bytes(ctx, i)
		if err != nil {
			return err
		}
		return renderOne(out, b, l.render)
	}
	ordered, err := l.order.load(ctx, s.doc, out.most)
	if err != nil {
		return err
	}
	if ordered {
		return l.order.write(out, n, one)
	}
	for i := range n {
		if err := out.next(); err != nil {
			return err
		}
		if err := one(i); err != nil {
			return err
		}
	}
	return nil
}

func renderOne(out *values, b []byte, render renderBytes) error {
	mark := len(out.b)
	if out.b = render(out.b, b); len(out.b) <= mark {
		return &Unknown{Reason: "a value that the type cannot have"}
	}
	return nil
}

// storedText is a stored field of strings or bytes.
type storedText struct {
	name string
	java bool // the cluster also writes bytes as Java strings
}

func (l storedText) load(_ context.Context, s *segment, out *values) error {
	for _, v := range s.stored[l.name] {
		if err := out.next(); err != nil {
			return err
		}
		switch {
		case v.Kind == lucene.StoredString || v.Kind == lucene.StoredBytes && l.java:
			out.b = appendText(out.b, v.Bytes)
		case v.Kind == lucene.StoredBytes:
			out.b = appendUTF8(out.b, v.Bytes)
		default:
			return &Unknown{Reason: "a stored number where text is expected"}
		}
	}
	return nil
}

// malformed is the stored field of values that the type could not accept.
type malformed struct {
	name string
}

func (l malformed) load(_ context.Context, s *segment, out *values) error {
	for _, v := range s.stored[l.name] {
		if err := out.next(); err != nil {
			return err
		}
		var err error
		switch v.Kind {
		case lucene.StoredString:
			out.b = appendText(out.b, v.Bytes)
		case lucene.StoredBytes:
			if len(v.Bytes) == 0 {
				return codec.Errorf(0, "an ignored value without a type")
			}
			out.b, err = appendIgnored(out.b, v.Bytes, s.convert)
		case lucene.StoredInt, lucene.StoredLong:
			out.b = appendLong(out.b, v.Int)
		case lucene.StoredFloat:
			out.b = appendFloat(out.b, v.Float, 32)
		case lucene.StoredDouble:
			out.b = appendFloat(out.b, v.Float, 64)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
