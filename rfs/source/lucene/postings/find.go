package postings

import (
	"context"
	"math"
)

// Find calls yield for each document that has one of the wanted terms in a field, with the term, in no particular order. It visits all terms
// of the field. The term is valid during the call.
func (d *Dictionary) Find(ctx context.Context, number int32, wanted func(term []byte) bool, yield func(term []byte, doc int32) error) error {
	f := d.fields[number]
	if f == nil {
		return nil
	}
	l, err := d.lists(ctx, f)
	if err != nil {
		return err
	}
	return d.walk(ctx, f, func(text []byte, t *term) error {
		if !wanted(text) {
			return nil
		}
		end := int32(math.MaxInt32)
		_, err := l.each(t, mark{}, 0, &end, func(doc, _ int32) error { return yield(text, doc) })
		return err
	})
}
