// Package overtime creates contexts that outlive others by some time, for requests whose result must be known although their caller has
// been cancelled, such as a request that opens something at the server.
package overtime

import (
	"context"
	"time"
)

// Context returns a context with the values of ctx that ends more after ctx. done ends it immediately and releases its resources.
func Context(ctx context.Context, more time.Duration) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		end := time.AfterFunc(more, cancel)
		context.AfterFunc(longer, func() { end.Stop() })
	})
	return longer, func() {
		stop()
		cancel()
	}
}
