package rebuild

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

/*
Slots keep the values of a document in the order in which they were sent, including nulls. <name>.counts states their number:

	plain  one value alone; of several, for each VInt length + 1, the value, or VInt 0 for null
	keyed  (flattened objects) for each VInt length + 1, path, zero byte, the value, or VInt 0, path, zero byte for null

With a count but no bytes, all values are nulls; a count of zero is an empty array.
*/
type slots struct {
	column *lucene.Column // nil if no document has a non-null value
	counts *lucene.Column // nil if a document has at most one value (multi_value: false)
}

// slotsOf returns the slots of a field; nil if the segment has none of that name.
func (s *segment) slotsOf(ctx context.Context, name string) (*slots, error) {
	c, err := s.column(ctx, name)
	if err != nil || c != nil && c.Kind() != columns.Binary {
		return nil, err
	}
	n, err := s.column(ctx, name+suffixCounts)
	if err != nil || c == nil && n == nil {
		return nil, err
	}
	if n != nil && n.Kind() != columns.Numeric {
		return nil, fault.ErrUnsupported
	}
	return &slots{c, n}, nil
}

// read returns the number of values of a document and their bytes, nil if all are nulls; ok is false if the document lacks the field.
func (l *slots) read(ctx context.Context, doc int32) (count int64, b []byte, ok bool, err error) {
	count = 1
	if l.counts != nil {
		n, err := l.counts.Advance(ctx, doc)
		if err != nil || n == 0 {
			return 0, nil, false, err
		}
		if count, err = l.counts.Number(ctx, 0); err != nil {
			return 0, nil, false, err
		}
		if count < 0 || count > maxPlaces {
			return 0, nil, false, codec.Errorf(0, "%d values of a field", count)
		}
	}
	n := 0
	if l.column != nil {
		if n, err = l.column.Advance(ctx, doc); err != nil {
			return 0, nil, false, err
		}
	}
	if n == 0 {
		return count, nil, l.counts != nil, nil
	}
	if b, err = l.column.Bytes(ctx, 0); err == nil && b == nil {
		b = []byte{}
	}
	return count, b, true, err
}

// slotValues are the values of a keyword, a text or an address in slots.
type slotValues struct {
	*slots
	render renderBytes
}

// slotLayers returns the layers of a field whose values are in slots, or in a column of terms if its mapping asks for that.
func (s *segment) slotLayers(ctx context.Context, f *node) ([]layer, string, error) {
	render := renderBytes(appendUTF8)
	more, err := s.originalLayer(ctx, f)
	if f.kind == "ip" {
		render = func(dst, v []byte) []byte { dst, _ = appendIP(dst, v); return dst }
		more, err = s.malformedLayer(ctx, f)
	}
	if err != nil {
		return nil, "", err
	}
	l, err := s.slotsOf(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	if l == nil {
		return s.termLayers(ctx, f, render, more)
	}
	return []layer{&slotValues{l, render}, more}, "", nil
}

func (l *slotValues) load(ctx context.Context, s *segment, out *values) error {
	count, b, ok, err := l.read(ctx, s.doc)
	switch {
	case err != nil || !ok:
		return err
	case b == nil:
		out.array = true
		for range count {
			if err := out.null(); err != nil {
				return err
			}
		}
		return nil
	}
	return eachSlot(b, count, func(v []byte) error {
		if v == nil {
			return out.null()
		}
		if err := out.next(); err != nil {
			return err
		}
		return renderOne(out, v, l.render)
	})
}

// eachSlot calls yield for each of count plain slots; null is nil.
func eachSlot(b []byte, count int64, yield func([]byte) error) error {
	if count == 1 {
		return yield(b)
	}
	in := codec.NewInput(b)
	for range count {
		var v []byte
		if n := in.VInt(); n != 0 {
			if v = in.Take(int(n) - 1); v == nil {
				v = []byte{}
			}
		}
		if in.Err() != nil {
			return in.Err()
		}
		if err := yield(v); err != nil {
			return err
		}
	}
	if in.Left() != 0 {
		in.Fail("%d bytes left after %d values", in.Left(), count)
	}
	return in.Err()
}

// null adds a null.
func (v *values) null() error {
	err := v.next()
	v.b = append(v.b, "null"...)
	return err
}

// keyedSlots are the leaves of a flattened object in slots. Values that ignore_above excluded follow them.
type keyedSlots struct {
	*slots
	ignored *blobs // nil if no value was excluded
	mapped  mappedKeys
}

// keyedSlotLayers returns the layers of an object whose leaves have no mapping, except for some keys.
func (s *segment) keyedSlotLayers(ctx context.Context, f *node) ([]layer, string, error) {
	l, err := s.slotsOf(ctx, f.path+suffixKeyed)
	if err != nil {
		return nil, "", err
	}
	ignored, err := s.blobsOf(ctx, f.path+suffixKeyedIgnored)
	if err != nil || l == nil && ignored == nil && len(f.children) == 0 {
		return nil, "", err
	}
	return []layer{&keyedSlots{l, ignored, mappedKeys{nodes: f.children}}}, "", nil
}

func (l *keyedSlots) load(ctx context.Context, s *segment, out *values) error {
	found := map[string][]*string{}
	size := 0
	take := func(path string, value *string) error {
		size += pairSize + len(path) + partSize*strings.Count(path, ".")
		if value != nil {
			size += len(*value)
		}
		found[path] = append(found[path], value)
		return fits(size, 2*out.most)
	}
	if l.slots != nil {
		count, b, _, err := l.read(ctx, s.doc)
		if err == nil && b != nil {
			err = eachKeyedSlot(b, count, take)
		}
		if err != nil {
			return err
		}
	}
	if l.ignored != nil {
		err := l.ignored.each(ctx, s.doc, func(b []byte) error {
			path, value, ok := bytes.Cut(b, []byte{0})
			if !ok {
				return codec.Errorf(0, "a flattened value without a path")
			}
			text := string(value)
			return take(string(path), &text)
		})
		if err != nil {
			return err
		}
	}
	leaves := make([]flatLeaf, 0, len(found))
	for path, values := range found {
		leaves = append(leaves, flatLeaf{strings.Split(path, "."), values})
	}
	slices.SortFunc(leaves, func(a, b flatLeaf) int {
		return compareJava(strings.Join(a.parts, "."), strings.Join(b.parts, "."))
	})
	return l.mapped.write(ctx, s, out, leaves)
}

// eachKeyedSlot calls yield for each of count keyed slots; the value of null is nil.
func eachKeyedSlot(b []byte, count int64, yield func(path string, value *string) error) error {
	in := codec.NewInput(b)
	for range count {
		n := in.VInt()
		path, _, ok := bytes.Cut(b[len(b)-in.Left():], []byte{0})
		if in.Err() == nil && !ok {
			in.Fail("a flattened value without a path")
		}
		in.Take(len(path) + 1)
		var value *string
		if n != 0 {
			text := string(in.Take(int(n) - 1))
			value = &text
		}
		if in.Err() != nil {
			return in.Err()
		}
		if err := yield(string(path), value); err != nil {
			return err
		}
	}
	if in.Left() != 0 {
		in.Fail("%d bytes left after %d values", in.Left(), count)
	}
	return in.Err()
}
