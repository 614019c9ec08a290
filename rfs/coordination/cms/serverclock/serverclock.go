// Package serverclock reads the clock of a server from its answers.
package serverclock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

const (
	maxAge  = 30 * time.Second // a reading of a server's clock is used this long
	maxTrip = 2 * time.Second  // slower answers are too inexact
)

// Clock is the clock of a coordination store's server, read from its answers (Cristian's method). It is safe for concurrent use. The zero
// value has no reading.
type Clock struct {
	mu   sync.Mutex
	last reading
}

// reading is a reading of a server's clock.
type reading struct {
	local  time.Time // at the middle of the request; wall and monotonic
	server time.Time
	maxErr time.Duration
}

// at extrapolates the reading to now. ok is false when the reading is old or this machine's clocks disagree on its age.
func (r reading) at(now time.Time) (time.Time, bool) {
	mono, wall := now.Sub(r.local), now.Round(0).Sub(r.local.Round(0))
	if r.server.IsZero() || mono > maxAge || (wall-mono).Abs() > time.Second {
		return time.Time{}, false
	}
	return r.server.Add(mono), true
}

// Now returns the clock of the server, extrapolated by local for up to 30 s. ask sends one request and returns the clock in its answer. The
// error is half the round trip plus the resolution of that clock. Now returns fault.ErrUnavailable after a slow answer, and when this
// machine's clock jumps.
func (c *Clock) Now(ctx context.Context, local func() time.Time, resolution time.Duration, ask func(context.Context) (time.Time, error)) (time.Time, time.Duration, error) {
	c.mu.Lock()
	r := c.last
	c.mu.Unlock()
	if now, ok := r.at(local()); ok {
		return now, r.maxErr, nil
	}
	before := local()
	server, err := ask(ctx)
	trip := local().Sub(before)
	if err != nil {
		return time.Time{}, 0, err
	}
	if trip > maxTrip {
		return time.Time{}, 0, fmt.Errorf("the coordination store took %s to answer with its clock: %w", trip.Round(time.Millisecond), fault.ErrUnavailable)
	}
	r = reading{local: before.Add(trip / 2), server: server.Add(resolution / 2), maxErr: trip/2 + resolution}
	c.mu.Lock()
	c.last = r
	c.mu.Unlock()
	now, ok := r.at(local())
	if !ok {
		return time.Time{}, 0, fmt.Errorf("this machine's clock jumped: %w", fault.ErrUnavailable)
	}
	return now, r.maxErr, nil
}
