package cmstest

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Clock reads the virtual time of a synctest bubble on all three clocks, those that only go on from its start.
type Clock struct{ Start time.Time }

// Read returns the time.
func (c Clock) Read() timing.Reading {
	now := time.Now()
	return timing.Reading{Wall: now, Mono: now.Sub(c.Start), Boot: now.Sub(c.Start)}
}

// Sleep waits for d or the end of ctx, whose error it returns then.
func (Clock) Sleep(ctx context.Context, d time.Duration) error {
	return timing.SystemClock().Sleep(ctx, d)
}
