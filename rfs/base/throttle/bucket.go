// Package throttle limits how many bytes per second a process sends.
package throttle

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is a token bucket of bytes that all slots of a process share. It starts empty and holds the bytes of at most one second. Larger
// bodies wait for several refills; requests are served in order. New(0) has no limit.
type Bucket struct {
	limiter *rate.Limiter
	turn    chan struct{} // held by the request that waits for tokens

	mu      sync.Mutex
	credit  int                  // tokens of a cancelled request, for the next one
	limited bool                 // by Allow, while left is positive
	left    func() time.Duration // nil: no end
	waiting int                  // waiting requests
	used    time.Time            // end of the last request
	changed chan struct{}        // closed and replaced when the rate changes
	ended   error                // set by End: nothing may be sent any more
}

// New returns an empty bucket with a rate that Allow can change. 0: no limit.
func New(bytesPerSecond int64) *Bucket {
	b := &Bucket{limiter: rate.NewLimiter(rate.Inf, 0), turn: make(chan struct{}, 1), changed: make(chan struct{}), used: time.Now()}
	if bytesPerSecond > 0 {
		b.Allow(bytesPerSecond, nil)
	}
	return b
}

// Allow changes the rate, also for waiting requests. It applies while left returns more than 0 (nil: no end); after that, and with a rate
// of 0, nothing may be sent until the next call. A negative rate removes the limit.
func (b *Bucket) Allow(bytesPerSecond int64, left func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytesPerSecond < 0 {
		b.limited, b.left = false, nil
		close(b.changed)
		b.changed = make(chan struct{})
		return
	}
	open := b.limited && b.isOpen()
	b.left = left
	if open && b.isOpen() && b.limiter.Limit() == rate.Limit(bytesPerSecond) {
		return // only its end has changed
	}
	now := time.Now()
	b.limiter.SetLimitAt(now, rate.Limit(bytesPerSecond))
	b.limiter.SetBurstAt(now, int(bytesPerSecond))
	if !open {
		b.credit = 0
		b.limiter.AllowN(now, max(int(b.limiter.TokensAt(now)), 0)) // time without a permit or without a limit adds no tokens
	}
	b.limited = true
	close(b.changed)
	b.changed = make(chan struct{})
}

// End makes all waiting and later requests return err.
func (b *Bucket) End(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	close(b.changed)
	b.changed = make(chan struct{})
}

// isOpen reports whether anything may be sent now. b.mu is held.
func (b *Bucket) isOpen() bool {
	return !b.limited || b.limiter.Limit() > 0 && (b.left == nil || b.left() > 0)
}

// InUse returns the rate in bytes per second that may be in use now; 0: none, or no limit.
func (b *Bucket) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limited || !b.isOpen() {
		return 0
	}
	return int64(b.limiter.Limit())
}

// Used reports whether a request is waiting, or ended within a duration. A new bucket counts as used.
func (b *Bucket) Used(within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0 || time.Since(b.used) <= within
}

// Take blocks until n bytes may be sent. It returns the error of ctx if that is done first, or the error passed to End.
func (b *Bucket) Take(ctx context.Context, n int) error {
	b.count(1)
	defer b.count(-1)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for left := n - b.takeCredit(n); left > 0; {
		took, err := b.takeSome(ctx, left)
		if err != nil {
			b.keepCredit(n - left)
			return err
		}
		left -= took
	}
	return nil
}

func (b *Bucket) takeCredit(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil || !b.isOpen() {
		return 0
	}
	credit := min(b.credit, n)
	b.credit -= credit
	return credit
}

func (b *Bucket) keepCredit(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(n, b.limiter.Burst())
}

func (b *Bucket) count(waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += waiting
	b.used = time.Now()
}

// takeSome blocks until up to n bytes may be sent, and returns how many; 0 if the rate changed or expired meanwhile.
func (b *Bucket) takeSome(ctx context.Context, n int) (int, error) {
	b.mu.Lock()
	if b.ended != nil || !b.limited {
		defer b.mu.Unlock()
		return n, b.ended
	}
	changed := b.changed
	if !b.isOpen() {
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-changed:
			return 0, nil
		}
	}
	some := min(n, b.limiter.Burst())
	r := b.limiter.ReserveN(time.Now(), some)
	b.mu.Unlock()
	delay := r.Delay()
	if delay <= 0 {
		return some, nil
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-ctx.Done():
		r.Cancel()
		return 0, ctx.Err()
	case <-changed:
		r.Cancel()
		return 0, nil
	case <-t.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOpen() {
		return 0, nil
	}
	return some, nil
}
