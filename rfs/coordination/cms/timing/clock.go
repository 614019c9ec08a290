package timing

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
)

// Reading is one reading of this machine's clocks.
type Reading struct {
	Wall time.Time     // may jump
	Mono time.Duration // since an arbitrary start; does not advance while the machine sleeps
	Boot time.Duration // since an arbitrary start; advances while the machine sleeps
}

// Clock is the clock of the machine. Stores have their own.
type Clock interface {
	Read() Reading
	// Sleep blocks for d, or until ctx is done, and returns the error of ctx. For d ≤ 0 it starts no timer, because several timers that
	// expire as they are started in one bubble of testing/synctest break the race detector.
	Sleep(ctx context.Context, d time.Duration) error
}

// Instant is a point in time on all three clocks.
type Instant Reading

// After returns the instant d later on all three clocks.
func (r Reading) After(d time.Duration) Instant {
	return Instant{Wall: r.Wall.Add(d), Mono: r.Mono + d, Boot: r.Boot + d}
}

// Left returns the time until the instant, by the clock on which it comes first; ≤ 0 when it has passed.
func (i Instant) Left(now Reading) time.Duration {
	return min(i.Wall.Round(0).Sub(now.Wall.Round(0)), i.Mono-now.Mono, i.Boot-now.Boot)
}

type systemClock struct{ start time.Time }

// SystemClock returns the clocks of the operating system.
func SystemClock() Clock { return systemClock{start: time.Now()} }

func (c systemClock) Read() Reading {
	now := time.Now()
	mono := now.Sub(c.start)
	return Reading{Wall: now, Mono: mono, Boot: bootTime(mono)}
}

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return wait.For(ctx, d) }
