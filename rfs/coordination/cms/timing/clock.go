package timing

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
)

// Reading is one look at the clocks of this machine.
type Reading struct {
	Wall time.Time     // may jump
	Mono time.Duration // since an arbitrary start; stopped while the machine sleeps
	Boot time.Duration // since some start; runs on while the machine sleeps
}

// Clock is the machine's time. Stores have their own.
type Clock interface {
	Read() Reading
	// Sleep blocks for d, or until ctx is done and returns its error. Without a time to wait it starts no timer: several that run
	// out as they are started in one bubble of testing/synctest break the race detector.
	Sleep(ctx context.Context, d time.Duration) error
}

// Instant is a point in time on all three clocks.
type Instant Reading

// After returns the instant d later on all three clocks.
func (r Reading) After(d time.Duration) Instant {
	return Instant{Wall: r.Wall.Add(d), Mono: r.Mono + d, Boot: r.Boot + d}
}

// Left returns the time until the instant on the clock where it comes first; ≤ 0 when it is over.
func (i Instant) Left(now Reading) time.Duration {
	return min(i.Wall.Round(0).Sub(now.Wall.Round(0)), i.Mono-now.Mono, i.Boot-now.Boot)
}

type systemClock struct{ start time.Time }

// SystemClock reads the clocks of the operating system.
func SystemClock() Clock { return systemClock{start: time.Now()} }

func (c systemClock) Read() Reading {
	now := time.Now()
	mono := now.Sub(c.start)
	return Reading{Wall: now, Mono: mono, Boot: bootTime(mono)}
}

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return wait.For(ctx, d) }
