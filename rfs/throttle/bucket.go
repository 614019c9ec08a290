// Package throttle limits how many bytes per second a process sends.
package throttle

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is a token bucket of bytes that all slots of a process share. It starts empty and holds the bytes of at most one
// second. Bodies larger than that wait for several refills; requests are served in order. A Bucket of rate 0 does not limit.
type Bucket struct {
	limiter *rate.Limiter
	turn    chan struct{} // held by the request that waits for tokens
	credit  int           // tokens of a cancelled request, for the next one; guarded by turn

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the rate changes
}

// New returns an empty bucket.
func New(bytesPerSecond int64) *Bucket {
	b := &Bucket{limiter: rate.NewLimiter(rate.Inf, 0), turn: make(chan struct{}, 1), changed: make(chan struct{})}
	b.SetRate(bytesPerSecond)
	return b
}

// SetRate changes the rate, also for requests that wait already. 0: no limit.
func (b *Bucket) SetRate(bytesPerSecond int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, unlimited := time.Now(), b.limiter.Limit() == rate.Inf
	if bytesPerSecond <= 0 {
		b.limiter.SetLimitAt(now, rate.Inf)
	} else {
		b.limiter.SetLimitAt(now, rate.Limit(bytesPerSecond))
		b.limiter.SetBurstAt(now, int(bytesPerSecond))
		if unlimited {
			b.limiter.AllowN(now, max(int(b.limiter.TokensAt(now)), 0)) // the time without a limit earns nothing
		}
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// Rate returns the limit in bytes per second; 0: none.
func (b *Bucket) Rate() int64 {
	if limit := b.limiter.Limit(); limit != rate.Inf {
		return int64(limit)
	}
	return 0
}

// Take blocks until n bytes may be sent. If ctx is done first it returns the error of ctx.
func (b *Bucket) Take(ctx context.Context, n int) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	credit := min(b.credit, n)
	b.credit -= credit
	for left := n - credit; left > 0; {
		took, err := b.takeSome(ctx, left)
		if err != nil {
			b.credit = min(n-left, b.limiter.Burst())
			return err
		}
		left -= took
	}
	return nil
}

// takeSome blocks until up to n bytes may be sent and returns how many; 0 if the rate has changed meanwhile.
func (b *Bucket) takeSome(ctx context.Context, n int) (int, error) {
	b.mu.Lock()
	if b.limiter.Limit() == rate.Inf {
		b.mu.Unlock()
		return n, nil
	}
	some, changed := min(n, b.limiter.Burst()), b.changed
	r := b.limiter.ReserveN(time.Now(), some)
	b.mu.Unlock()
	t := time.NewTimer(r.Delay())
	defer t.Stop()
	select {
	case <-ctx.Done():
		r.Cancel()
		return 0, ctx.Err()
	case <-changed:
		r.Cancel()
		return 0, nil
	case <-t.C:
		return some, nil
	}
}
