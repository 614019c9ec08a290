// Package early makes results before it is known whether they are wanted, while the caller waits for something else.
package early

import "context"

// Result is a result that a goroutine makes. The nil Result is empty and can be stopped.
type Result[T any] struct {
	cancel context.CancelFunc
	done   chan struct{}
	result T // valid when done is closed
}

// Start makes a result in a goroutine, which Stop ends. The caller has to call Stop.
func Start[T any](ctx context.Context, produce func(ctx context.Context) T) *Result[T] {
	r := &Result[T]{done: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.result = produce(ctx)
	}()
	return r
}

// Done returns a channel that is closed when the result is made.
func (r *Result[T]) Done() <-chan struct{} { return r.done }

// Wait blocks until the result is made and returns it.
func (r *Result[T]) Wait() T {
	<-r.done
	return r.result
}

// Cancel ends the context in which the result is made, and does not wait.
func (r *Result[T]) Cancel() { r.cancel() }

// Stop cancels the making of the result and blocks until its goroutine has ended.
func (r *Result[T]) Stop() {
	if r != nil {
		r.cancel()
		<-r.done
	}
}
