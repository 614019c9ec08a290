package cmstest

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Clock returns the virtual time of a synctest bubble for all clocks; the monotonic ones count from Start.
type Clock struct{ Start time.Time }

// Read returns the time.
func (c Clock) Read() timing.Reading {
	now := time.Now()
	return timing.Reading{Wall: now, Mono: now.Sub(c.Start), Boot: now.Sub(c.Start)}
}

// Sleep blocks for d or until ctx is done, and then returns its error.
func (Clock) Sleep(ctx context.Context, d time.Duration) error {
	return timing.SystemClock().Sleep(ctx, d)
}
