// Package throttle bounds how many bytes per second a process sends.
package throttle

import (
	"context"
	"sync"
	"time"
)

// Bucket is a token bucket over bytes that all slots of a process share. It may be overdrawn by
// one body, so that bodies of any size pass; who comes after waits for it. A Bucket of rate 0
// lets everything pass.
type Bucket struct {
	mu      sync.Mutex
	rate    float64 // bytes per second; 0: no limit
	balance float64 // bytes that may be sent now; negative while overdrawn
	last    time.Time
	changed chan struct{} // closed and replaced with each change of the rate
}

// New makes a full bucket of one second's bytes.
func New(bytesPerSecond int64) *Bucket {
	b := &Bucket{changed: make(chan struct{}), last: time.Now()}
	b.rate = max(0, float64(bytesPerSecond))
	b.balance = b.rate
	return b
}

// SetRate changes the rate at once, also for those who wait. 0: no limit.
func (b *Bucket) SetRate(bytesPerSecond int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.rate = max(0, float64(bytesPerSecond))
	b.balance = min(b.balance, b.rate)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Rate is the limit in bytes per second; 0: none.
func (b *Bucket) Rate() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.rate)
}

// Take waits until n bytes may be sent, or until ctx ends, and gives the error of ctx then.
func (b *Bucket) Take(ctx context.Context, n int) error {
	for {
		wait, changed := b.try(n)
		if wait == 0 {
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-changed:
			t.Stop()
		case <-t.C:
		}
	}
}

// try takes n bytes, or says how long to wait for the bucket to be no longer overdrawn.
func (b *Bucket) try(n int) (wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	switch {
	case b.rate == 0:
		return 0, nil
	case b.balance > 0 || n == 0:
		b.balance -= float64(n)
		return 0, nil
	}
	seconds := (1 - b.balance) / b.rate // until one byte is there
	return max(time.Duration(seconds*float64(time.Second)), time.Millisecond), b.changed
}

func (b *Bucket) refill(now time.Time) {
	b.balance = min(b.balance+b.rate*now.Sub(b.last).Seconds(), b.rate)
	b.last = now
}
