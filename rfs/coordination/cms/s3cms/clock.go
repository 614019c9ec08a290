package s3cms

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// resolution is the resolution of the Date header. It is added to the error of every reading, and thereby to every margin.
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

// careful returns the transition with a longer grace after the end of another's lease, by twice the error of the clock: the readings of the
// holder, which set the end, and of this process may differ by as much.
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
