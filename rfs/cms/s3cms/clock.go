package s3cms

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	clockAge   = 30 * time.Second // a reading is used this long
	maxRoundup = 2 * time.Second  // slower answers are too inexact
	// resolution is that of the Date header. It is added to the error of every reading, and by that to every margin.
	resolution = time.Second
)

// reading is the server's clock at a moment of ours (Cristian's method).
type reading struct {
	local  time.Time // middle of the request; wall and monotonic
	server time.Time // middle of the second that Date names
	maxErr time.Duration
}

// at extrapolates; ok is false when the reading is old or this machine's clocks disagree about that.
func (r reading) at(now time.Time) (time.Time, bool) {
	mono, wall := now.Sub(r.local), now.Round(0).Sub(r.local.Round(0))
	if r.server.IsZero() || mono > clockAge || (wall-mono).Abs() > time.Second {
		return time.Time{}, false
	}
	return r.server.Add(mono), true
}

// Now returns the clock of the server from the Date header of an answer, extrapolated for up to 30 s. The error is half the
// round trip and the resolution of the header.
func (s *session) Now(ctx context.Context) (time.Time, time.Duration, error) {
	s.mu.Lock()
	r := s.clock
	s.mu.Unlock()
	if now, ok := r.at(s.cfg.Now()); ok {
		return now, r.maxErr, nil
	}
	before := s.cfg.Now()
	date, err := s.cfg.Bucket.Date(ctx, s.name+conditions)
	trip := s.cfg.Now().Sub(before)
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("clock of the coordination store: %w", err)
	}
	if trip > maxRoundup {
		return time.Time{}, 0, fmt.Errorf("the coordination store took %s to answer with its clock: %w", trip.Round(time.Millisecond), fault.ErrUnavailable)
	}
	r = reading{local: before.Add(trip / 2), server: date.Add(resolution / 2), maxErr: trip/2 + resolution}
	s.mu.Lock()
	s.clock = r
	s.mu.Unlock()
	now, ok := r.at(s.cfg.Now())
	if !ok {
		return time.Time{}, 0, fmt.Errorf("this machine's clock jumped: %w", fault.ErrUnavailable)
	}
	return now, r.maxErr, nil
}

// careful returns a transition that waits longer after the end of another's lease by as much as two readings of the clock may
// differ: that of the holder, which decided when the lease ends, and ours.
func careful(t cms.Transition, maxErr time.Duration) cms.Transition {
	more := 2 * maxErr.Milliseconds()
	switch t := t.(type) {
	case cms.Acquire:
		t.GraceMs += more
		return t
	case cms.Fail:
		t.GraceMs += more
		return t
	case cms.Restart:
		t.GraceMs += more
		return t
	case cms.Replace:
		t.GraceMs += more
		return t
	}
	return t
}
