// Package retry retries calls whose errors may pass. A Policy limits the number of calls, an Outage the time without a success.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
)

// Policy determines how often a call is retried, and the pauses between the calls.
type Policy struct {
	Tries      int                               // maximum number of calls
	First, Max time.Duration                     // first and longest pause; pauses double. Max 0: all are First
	Jitter     func(time.Duration) time.Duration // randomizes a pause; nil: exact pauses
	Least      time.Duration                     // minimum time for which calls are retried, even beyond Tries
	Unasked    time.Duration                     // maximum time between two calls; longer pauses are interrupted by further calls. 0: unlimited
	Left       func() time.Duration              // time left; no pause may exceed it. nil: unlimited
	Passes     func(err error) bool              // whether the call may succeed later; nil: errors.Is(err, fault.ErrUnavailable)
	Now        func() time.Duration              // a monotonic clock, for Least
	Sleep      func(ctx context.Context, d time.Duration) error
}

// Full returns a random time of up to d, never 0.
func Full(d time.Duration) time.Duration { return rand.N(d) + 1 }

// Half returns a random time between d/2 and d.
func Half(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// Pause returns the length of pause n, counted from 1.
func (p Policy) Pause(n int) time.Duration {
	const doublings = 20 // beyond any Max
	d := min(p.First<<min(n-1, doublings), max(p.First, p.Max))
	if p.Jitter != nil {
		d = p.Jitter(d)
	}
	return d
}

// Do calls f until it succeeds or its Series ends.
func (p Policy) Do(ctx context.Context, f func(context.Context) error) error {
	for s := p.Start(); ; {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if err := s.Again(ctx, err); err != nil {
			return err
		}
	}
}

// Start returns an empty Series of the Policy.
func (p Policy) Start() Series {
	s := Series{Policy: p}
	if p.Least > 0 {
		s.begin = p.Now()
	}
	return s
}

// Series counts consecutive failed calls.
type Series struct {
	Policy
	calls, pauses int
	rest          time.Duration // of the current pause
	begin         time.Duration
}

// Reset records a success.
func (s *Series) Reset() { s.calls, s.pauses, s.rest = 0, 0, 0 }

// Again records a failed call, and blocks for the pause before the next one. It returns err if the call must not be retried: err does not
// pass, the tries are used up, or too little time is left. If ctx is done, it returns err joined with the error of ctx.
func (s *Series) Again(ctx context.Context, err error) error {
	s.calls++
	switch {
	case !passes(s.Passes, err):
		return err
	case ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	}
	if s.rest <= 0 {
		if s.pauses >= s.Tries-1 && (s.Least == 0 || s.Now()-s.begin >= s.Least) {
			return fmt.Errorf("after %d tries: %w", s.calls, err)
		}
		s.pauses++
		s.rest = s.Pause(s.pauses)
	}
	d := s.rest
	if s.Unasked > 0 {
		d = min(d, s.Unasked)
	}
	if s.Left != nil && d >= s.Left() {
		return fmt.Errorf("no time for another try: %w", err)
	}
	sleep := s.Sleep
	if sleep == nil {
		sleep = wait.For
	}
	if serr := sleep(ctx, d); serr != nil {
		return errors.Join(err, serr)
	}
	s.rest -= d
	return nil
}

func passes(of func(error) bool, err error) bool {
	if of == nil {
		return errors.Is(err, fault.ErrUnavailable)
	}
	return of(err)
}
