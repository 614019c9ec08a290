// Package wait pauses a goroutine for a time that the end of its context shortens.
package wait

import (
	"context"
	"time"
)

// For blocks for d, or until ctx ends; it returns the error of ctx then, also if d is not positive.
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
