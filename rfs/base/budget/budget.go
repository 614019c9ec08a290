// Package budget limits the bytes that a process holds of foreign data: long documents, metadata, responses. Data that is short, or limited
// by options, is not counted.
package budget

import (
	"context"
	"math"
	"sync"
)

// Budget is a number of bytes that the parts of a process share. It is safe for concurrent use. The nil Budget has no limit.
type Budget struct {
	most, reserve int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter // in order of arrival
}

type waiter struct {
	n    int64
	turn chan struct{} // closed when it has been granted n bytes
}

// New returns a Budget of most bytes. The last reserve bytes are only for Try: data that finishes work, such as a response, never waits for
// data that starts work.
func New(most, reserve int64) *Budget { return &Budget{most: most, reserve: reserve} }

// Take blocks until n bytes are free and returns them, or the error of ctx. A request larger than the Budget takes all of it, alone. A
// caller that takes another Share while it holds one may wait for itself: take both in one call and Split.
func (b *Budget) Take(ctx context.Context, n int64) (*Share, error) {
	if b == nil || n <= 0 {
		return nil, nil
	}
	n = min(n, b.most-b.reserve)
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return &Share{budget: b, n: n}, nil
	}
	w := &waiter{n: n, turn: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.turn:
		return &Share{budget: b, n: n}, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiting {
		if b.waiting[i] == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.admit()
			return nil, context.Cause(ctx)
		}
	}
	b.used -= n // it was granted at the same moment
	b.admit()
	return nil, context.Cause(ctx)
}

// Alone blocks until nothing of the Budget is held, except for its reserve, and takes all of it until release is called.
func (b *Budget) Alone(ctx context.Context) (release func(), err error) {
	s, err := b.Take(ctx, math.MaxInt64)
	return s.Release, err
}

// Try returns n bytes if they are free now, including the reserve; ok reports whether they were.
func (b *Budget) Try(n int64) (s *Share, ok bool) {
	if b == nil || n <= 0 {
		return nil, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.most {
		return nil, false
	}
	b.used += n
	return &Share{budget: b, n: n}, true
}

// fits reports whether n bytes may be taken now, without the reserve.
func (b *Budget) fits(n int64) bool { return b.used+n <= b.most-b.reserve }

// admit grants the waiting requests in order, as far as they fit. b.mu is held.
func (b *Budget) admit() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		b.used += b.waiting[0].n
		close(b.waiting[0].turn)
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
	}
}

// Share is a number of bytes held of a Budget. Release may be called by any goroutine. The nil Share holds none.
type Share struct {
	budget *Budget
	n      int64
}

// Split moves n bytes, or all if there are fewer, to another Share.
func (s *Share) Split(n int64) *Share {
	if s == nil {
		return nil
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	n = min(n, s.n)
	s.n -= n
	return &Share{budget: s.budget, n: n}
}

// Release returns the bytes to the Budget; a second call does nothing.
func (s *Share) Release() {
	if s == nil {
		return
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.used -= s.n
	s.n = 0
	s.budget.admit()
}
