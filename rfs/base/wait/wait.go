// Package wait pauses a goroutine until a duration has elapsed or a context is done.
package wait

import (
	"context"
	"time"
)

// For blocks for d, or until ctx is done and then returns its error, even if d is not positive.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
