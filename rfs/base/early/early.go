// Package early produces results before it is known whether they are needed, while the caller waits for something else.
package early

import "context"

// Result is a result that a goroutine produces. The nil Result is empty and can be stopped.
type Result[T any] struct {
	cancel context.CancelFunc
	done   chan struct{}
	result T // valid once done is closed
}

// Start produces a result in a goroutine. The caller has to call Stop, which ends the goroutine.
func Start[T any](ctx context.Context, produce func(ctx context.Context) T) *Result[T] {
	r := &Result[T]{done: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.result = produce(ctx)
	}()
	return r
}

// Done returns a channel that is closed when the result is complete.
func (r *Result[T]) Done() <-chan struct{} { return r.done }

// Wait blocks until the result is complete and returns it.
func (r *Result[T]) Wait() T {
	<-r.done
	return r.result
}

// Cancel cancels the context of the producing function, and does not wait.
func (r *Result[T]) Cancel() { r.cancel() }

// Stop cancels the producing function and blocks until its goroutine has ended.
func (r *Result[T]) Stop() {
	if r != nil {
		r.cancel()
		<-r.done
	}
}
