package cms

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

const (
	// guardInterval is the interval at which a guard reads the clocks.
	guardInterval = 500 * time.Millisecond
	// maxPause is the longest time between two readings of the clocks in a running process. After a longer one the process or the machine
	// was suspended, and another process may hold the lease.
	maxPause = 2 * time.Second
)

// Guard enforces the deadline of a lease of an item or a record. The deadline has passed when the first of the three clocks passes it. A
// guard sends no request by itself, so no hanging call can delay it.
type Guard struct {
	clock timing.Clock
	name  string
	// confirm asks the store whether this holder still has the lease.
	confirm func(context.Context) error

	mu        sync.Mutex
	safe, end timing.Instant // when the holder has to stop, and when others may start
	third     time.Duration
	lost      error
	last      timing.Reading // of the latest touch; zero before the first
	pauses    int            // pauses of the process that touch noticed
	confirmed int            // pauses after which the store has confirmed the lease
}

// granted sets the deadline: the lease started after the reading.
func (g *Guard) granted(before timing.Reading, length, margin time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.safe, g.end, g.third = before.After(length-margin), before.After(length), length/3
}

// UntilDeadline returns the time in which requests may still be started; ≤ 0 after the deadline.
func (g *Guard) UntilDeadline() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.safe.Left(g.clock.Read())
}

// UntilEnd returns the time until others may acquire the lease.
func (g *Guard) UntilEnd() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.end.Left(g.clock.Read())
}

func (g *Guard) renewAfter() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.third
}

// Check returns a fault.ErrLeaseLost when the deadline has passed or the store reported another holder.
func (g *Guard) Check() error {
	if lost := g.Lost(); lost != nil {
		return lost
	}
	if left := g.UntilDeadline(); left <= 0 {
		return fmt.Errorf("lease of %s: over since %s: %w", g.name, -left, fault.ErrLeaseLost)
	}
	return nil
}

// Lost returns why the lease is lost according to the store's answers. It stays nil when only the deadline has passed.
func (g *Guard) Lost() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// lose records that another process has the lease: Check returns err from now on.
func (g *Guard) lose(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		g.lost = err
	}
	return err
}

// touch records that the process runs. It returns the number of pauses so far, and whether the store has yet to confirm the lease after the
// last one. Readings that go back do not count as a pause.
func (g *Guard) touch() (pauses int, unconfirmed bool) {
	now := g.clock.Read()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != (timing.Reading{}) && (now.Boot-g.last.Boot > maxPause || now.Wall.Round(0).Sub(g.last.Wall.Round(0)) > maxPause) {
		g.pauses++
	}
	g.last = now
	return g.pauses, g.confirmed < g.pauses
}

// MayStart returns nil when a request may be started now. After a pause of a watched process it asks the store first, and returns its
// error.
func (g *Guard) MayStart(ctx context.Context) error {
	if err := g.Check(); err != nil {
		return err
	}
	g.mu.Lock()
	watched := g.last != (timing.Reading{})
	g.mu.Unlock()
	if !watched {
		return nil
	}
	pauses, unconfirmed := g.touch()
	if !unconfirmed {
		return nil
	}
	if err := g.confirm(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirmed = max(g.confirmed, pauses)
	return nil
}

// Wait blocks until the deadline has passed, or returns the error of ctx.
func (g *Guard) Wait(ctx context.Context) error {
	for left := g.UntilDeadline(); left > 0; left = g.UntilDeadline() {
		// In small steps: a clock may jump meanwhile.
		if err := g.clock.Sleep(ctx, min(left, guardInterval)); err != nil {
			return err
		}
	}
	return nil
}

// Watch returns a context that ends as soon as Check or each, which may be nil, returns an error; that error is its cause. Both are called
// every guardInterval. stop ends the watch and waits for it.
func (g *Guard) Watch(ctx context.Context, each func() error) (guarded context.Context, stop func()) {
	guarded, end := context.WithCancelCause(ctx)
	g.touch()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			step := min(guardInterval, max(g.UntilDeadline(), time.Millisecond))
			if g.clock.Sleep(guarded, step) != nil {
				return
			}
			g.touch()
			err := g.Check()
			if err == nil && each != nil {
				err = each()
			}
			if err != nil {
				end(err)
				return
			}
		}
	}()
	return guarded, func() {
		end(nil)
		<-done
	}
}
