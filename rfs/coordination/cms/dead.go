package cms

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ReleaseDead releases the items, and the right to seed, of a process that is proven dead. prefix is the holder that the process was
// started with; each acquisition appends a number. Items are released for cause, the right to seed without counting an attempt.
func (c *Coordinator) ReleaseDead(ctx context.Context, prefix string, cause Cause) error {
	if prefix == "" {
		return nil
	}
	prefix += "_"
	it, err := c.get(ctx, c.setup())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read %s: %w", c.setup(), err)
	}
	if err == nil && it.Open() && strings.HasPrefix(it.Holder, prefix) {
		if err := c.ReleaseHolder(ctx, c.setup(), it.Holder, CauseKilled); err != nil {
			return err
		}
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return fmt.Errorf("release what %s held: %w", prefix, err)
		}
		if it.Open() && strings.HasPrefix(it.Holder, prefix) {
			if err := c.ReleaseHolder(ctx, it.ID, it.Holder, cause); err != nil {
				return err
			}
		}
	}
	return nil
}
