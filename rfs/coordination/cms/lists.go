package cms

import (
	"context"
	"iter"
)

// list yields the records of a kind, as the store does; while the store does not answer it is asked again.
func (c *Coordinator) list(ctx context.Context, kind string) iter.Seq2[Record, error] {
	all := func(ctx context.Context) iter.Seq2[Record, error] { return c.store.List(ctx, kind) }
	return eachOnce(ctx, c.retries, all, func(r Record) string { return r.ID })
}

// decoded yields what decode makes of records, until the first error.
func decoded[T any](records iter.Seq2[Record, error], decode func(Record) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r, err := range records {
			var x T
			if err == nil {
				x, err = decode(r)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// scan yields all items, as the store does; while the store does not answer it is asked again.
func (c *Coordinator) scan(ctx context.Context) iter.Seq2[Item, error] {
	return eachOnce(ctx, c.retries, c.store.Scan, func(it Item) string { return it.ID })
}

// eachOnce yields what all does. After an error that may pass it begins again, and leaves out the ids that were yielded.
func eachOnce[T any](ctx context.Context, r retrier, all func(context.Context) iter.Seq2[T, error], id func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[string]bool{}
		enough := false
		err := r.do(ctx, readBudget, func(ctx context.Context) error {
			for x, err := range all(ctx) {
				if err != nil {
					return err
				}
				if seen[id(x)] {
					continue
				}
				seen[id(x)] = true
				if enough = !yield(x, nil); enough {
					return nil
				}
			}
			return nil
		})
		if err != nil && !enough {
			var none T
			yield(none, err)
		}
	}
}
