// Package overtime makes contexts that end later than others: for requests whose answer must be known although their caller
// has been cancelled, such as a request that opens something at the server.
package overtime

import (
	"context"
	"time"
)

// Context returns a context with the values of ctx that ends the time more after ctx has ended. done ends it immediately and
// frees it.
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
