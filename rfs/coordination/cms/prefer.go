package cms

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// AcquireOneOf tries to lease one of the items, in their order, without a search. The ids are hints: they
// may be taken, done, another engine's or not exist, and then the next one is tried. nil without an
// error means that none was free; AcquireNext finds free ones.
func (c *Coordinator) AcquireOneOf(ctx context.Context, holder string, ids []string) (*Lease, error) {
	c.repay(ctx)
	for _, id := range ids {
		r, err := ParseID(id)
		if err != nil {
			continue
		}
		if r.Cursor > 0 { // who chose the cursor has to be seen before the item is touched
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
