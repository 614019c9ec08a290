// Package budget bounds the bytes that a process holds of what others wrote: long documents, metadata, answers. What
// is short, and bounded by options, is not counted.
package budget

import (
	"context"
	"math"
	"sync"
)

// Budget is the bytes that the parts of a process share. It is safe for concurrent use. The nil Budget bounds nothing.
type Budget struct {
	most, reserve int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	n    int64
	turn chan struct{} // closed when n bytes are its own
}

// New returns a Budget of most bytes. The last reserve bytes of it are for Try: what ends work, such as an answer, never
// waits for what starts some.
func New(most, reserve int64) *Budget { return &Budget{most: most, reserve: reserve} }

// Take blocks until n bytes are free and returns them. A request larger than the Budget takes all of it, alone. It
// returns the error of ctx. A caller that holds a Share and takes another may wait for itself: take both in one call and
// Split.
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
	b.used -= n // it was its turn at the same moment
	b.admit()
	return nil, context.Cause(ctx)
}

// Alone blocks until nothing else of the Budget is held, except for its reserve, and takes all of it until release is called.
func (b *Budget) Alone(ctx context.Context) (release func(), err error) {
	s, err := b.Take(ctx, math.MaxInt64)
	return s.Release, err
}

// Try returns n bytes if they are free now, the reserve included; ok reports whether they were.
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

// fits reports whether n bytes may be taken now. What Try took of the reserve does not keep a lone one waiting.
func (b *Budget) fits(n int64) bool { return b.used+n <= b.most-b.reserve }

// admit calls those who wait, in their order, as far as there is room. b.mu is held.
func (b *Budget) admit() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		b.used += b.waiting[0].n
		close(b.waiting[0].turn)
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
	}
}

// Share is bytes of a Budget that are held. Release may be called by any goroutine. The nil Share is none.
type Share struct {
	budget *Budget
	n      int64
}

// Split moves n bytes, or all if there are fewer, into another Share.
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
