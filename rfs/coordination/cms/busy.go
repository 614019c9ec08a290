package cms

import (
	"context"
	"fmt"
	"time"
)

// Busy returns the unexpired lease of an item that ends last, nil when there is none.
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
