package cms

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// ErrForeign means that another tool has worked on the queue. It counts ordinals differently, so its cursors mean nothing here. It is a
// fault.ErrConfig.
var ErrForeign = fmt.Errorf("another tool has worked on this queue, which cannot be continued: use a new session (--session-name): %w", fault.ErrConfig)

// foreign returns an ErrForeign with the name of the item when another engine has worked on it. This program marks every item that
// it leases.
func (it Item) foreign() error {
	leased := it.Holder != "" || !it.Open() && it.Status == ""
	if leased && it.Engine != engine || it.foreignCursor() || it.foreignSuccessors() {
		return fmt.Errorf("%s: %w", ItemName(it.ID), ErrForeign)
	}
	return nil
}

// foreignCursor reports whether another engine chose the item's cursor. Every shard starts at 0.
func (it Item) foreignCursor() bool {
	id, err := it.Range()
	return err == nil && id.Cursor > 0 && it.Engine != engine
}

// foreignSuccessors reports whether another engine handed the item off. This program stores
// the cursor of the first successor as the watermark, in the same write.
func (it Item) foreignSuccessors() bool {
	if it.Successors == "" {
		return false
	}
	first, _, _ := strings.Cut(it.Successors, ",")
	_, cursor, ok := cutRight(first)
	return !ok || it.Watermark <= 0 || cursor != strconv.FormatInt(it.Watermark, 10)
}

// ownSuccessors returns an ErrForeign when another engine has created one of the items.
func (c *Coordinator) ownSuccessors(ctx context.Context, items []Item) error {
	for _, it := range items {
		is, err := c.get(ctx, it.ID)
		if errors.Is(err, ErrNotFound) { // the store forgot it; the audit creates it again
			continue
		}
		if err == nil {
			err = is.foreign()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
