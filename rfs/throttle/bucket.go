// Package throttle bounds how many bytes per second a process sends.
package throttle

import (
	"context"
	"sync"
	"time"
)

// Bucket is a token bucket over bytes that all slots of a process share. Whoever wants to send
// waits until its bytes are earned, so that bodies of any size pass and a process that lives only
// for one body keeps to the rate, too. What was not used is kept for at most a second.
// A Bucket of rate 0 lets everything pass.
type Bucket struct {
	mu      sync.Mutex
	rate    float64 // bytes per second; 0: no limit
	earned  float64 // bytes since the begin; at most a second's more than spent
	spent   float64 // bytes that were asked for
	last    time.Time
	changed chan struct{} // closed and replaced when those who wait have to look again
}

// New makes an empty bucket.
func New(bytesPerSecond int64) *Bucket {
	return &Bucket{rate: max(0, float64(bytesPerSecond)), last: time.Now(), changed: make(chan struct{})}
}

// SetRate changes the rate at once, also for those who wait. 0: no limit.
func (b *Bucket) SetRate(bytesPerSecond int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.rate = max(0, float64(bytesPerSecond))
	b.wake()
}

// Rate is the limit in bytes per second; 0: none.
func (b *Bucket) Rate() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.rate)
}

// Take waits until n bytes may be sent, or until ctx ends, and gives the error of ctx then.
func (b *Bucket) Take(ctx context.Context, n int) error {
	b.mu.Lock()
	b.refill(time.Now())
	b.spent += float64(n)
	ticket := b.spent
	b.mu.Unlock()
	for {
		wait, changed := b.until(ticket)
		if wait == 0 {
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			b.giveBack(n)
			return ctx.Err()
		case <-changed:
			t.Stop()
		case <-t.C:
		}
	}
}

// until says how long it takes until so many bytes are earned.
func (b *Bucket) until(ticket float64) (wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	if b.rate == 0 || b.earned >= ticket-0.5 { // less than a byte is rounding
		return 0, nil
	}
	seconds := (ticket - b.earned) / b.rate
	return max(time.Duration(min(seconds, 3600)*float64(time.Second)), time.Millisecond), b.changed
}

// giveBack lets those who wait behind somebody who gave up move forward.
func (b *Bucket) giveBack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earned += float64(n)
	b.wake()
}

func (b *Bucket) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Bucket) refill(now time.Time) {
	if b.rate == 0 {
		b.earned = b.spent // what passed unbounded is not held against anybody later
	} else {
		b.earned = min(b.earned+b.rate*now.Sub(b.last).Seconds(), b.spent+b.rate)
	}
	b.last = now
}
