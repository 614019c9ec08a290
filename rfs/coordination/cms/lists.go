package cms

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// scan yields all items of the store, and retries while the store does not answer.
func (c *Coordinator) scan(ctx context.Context) iter.Seq2[Item, error] {
	return eachOnce(ctx, c.leases, c.store.Scan, func(it Item) string { return it.ID })
}

// eachOnce yields the elements of all. After a transient error it starts again, without the ids that were yielded.
func eachOnce[T any](ctx context.Context, s *Leases, all func(context.Context) iter.Seq2[T, error], id func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[string]bool{}
		enough := false
		err := s.Retry(ctx, func(ctx context.Context) error {
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

// Busy returns the unexpired lease that ends last, or nil if no item is leased.
func (c *Coordinator) Busy(ctx context.Context) (last *NoneAvailable, err error) {
	now, _, err := c.leases.Now(ctx)
	if err != nil {
		return nil, err
	}
	for it, err := range c.scan(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		until := time.Unix(it.Expiration, 0).Add(c.grace)
		if it.Open() && it.Holder != "" && !until.Before(now) && (last == nil || until.After(last.NextExpiry)) {
			last = &NoneAvailable{Holder: it.Holder, NextExpiry: until, Open: 1}
		}
	}
	return last, nil
}
