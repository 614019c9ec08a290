package status

import (
	"context"
	"sync"
)

// Watchers are the clients that follow a status. The zero value is ready.
type Watchers struct {
	mu  sync.Mutex
	all map[chan struct{}]struct{}
}

// Subscribe returns a channel that receives a value when the status has changed, at most one pending. It is closed when ctx is done.
func (w *Watchers) Subscribe(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	if w.all == nil {
		w.all = map[chan struct{}]struct{}{}
	}
	w.all[ch] = struct{}{}
	w.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, ch)
		close(ch)
	})
	return ch
}

// Notify signals a change to all subscribers.
func (w *Watchers) Notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.all {
		select {
		case ch <- struct{}{}:
		default: // one is pending
		}
	}
}

// Any reports whether any client follows the status.
func (w *Watchers) Any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) > 0
}
