package s3cms

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// resolution is the resolution of the Date header. It is added to the error of every reading, and by that to every margin.
const resolution = time.Second

// Now returns the clock of the server from the Date header of an answer, extrapolated for up to 30 s. The error is half the
// round trip and the resolution of the header.
func (s *session) Now(ctx context.Context) (time.Time, time.Duration, error) {
	return s.clock.Now(ctx, s.cfg.Now, resolution, func(ctx context.Context) (time.Time, error) {
		date, err := s.cfg.Bucket.Date(ctx, s.name+conditions)
		if err != nil {
			return time.Time{}, fmt.Errorf("clock of the coordination store: %w", s.failed(err))
		}
		return date, nil
	})
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
	}
	return t
}
