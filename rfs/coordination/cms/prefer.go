package cms

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// AcquireOneOf tries to lease one of the items, in their order, without a search. An item that is leased, completed, another engine's or
// missing is skipped. A nil lease without an error means that none was free.
func (c *Coordinator) AcquireOneOf(ctx context.Context, holder string, ids []string) (*Lease, error) {
	c.repay(ctx)
	for _, id := range ids {
		r, err := ParseID(id)
		if err != nil {
			continue
		}
		if r.Cursor > 0 { // check the engine of the cursor before the item is changed
			it, err := c.get(ctx, id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", ItemName(id), err)
			}
			if !it.Open() || it.foreignCursor() {
				continue
			}
		}
		l, got, _, err := c.acquire(ctx, id, holder, c.cfg.InitialLease, c.cfg.MaxAttempts)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		if got.Successors == "" {
			return l, nil
		}
		if err := l.finish(ctx, got); err != nil && !errors.Is(err, fault.ErrLeaseLost) {
			return nil, err
		}
	}
	return nil, nil
}
