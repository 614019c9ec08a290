package importer

import (
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// outageTimer measures the time without an answer, and reports when to give up.
type outageTimer struct {
	limit time.Duration
	clock cms.Clock
	on    bool
	since time.Duration // on the boot-time clock
}

func (m *Import) newOutageTimer() *outageTimer {
	return &outageTimer{limit: m.Unavailable, clock: m.Clock}
}

// over records an answer.
func (s *outageTimer) over() { s.on = false }

// waits returns nil while it is worth trying again: the other side is unavailable, or another process
// was first, and not for too long.
func (s *outageTimer) waits(err error) error {
	if err == nil {
		s.over()
		return nil
	}
	var fatal *fatalError
	if errors.As(err, &fatal) || !errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, cms.ErrConflict) {
		return err
	}
	return s.waitsSince(s.clock.Read().Boot, err)
}

// waitsSince classifies an error of the other side that started at a time on the boot-time clock.
func (s *outageTimer) waitsSince(begun time.Duration, err error) error {
	if !s.on {
		s.on, s.since = true, begun
	}
	now := s.clock.Read().Boot
	if now-s.since > s.limit {
		return fmt.Errorf("no answer for %v: %w", (now - s.since).Round(time.Second), err)
	}
	return nil
}

// fatalError is an error for which the process has waited long enough: it cannot continue.
type fatalError struct{ error }

// Unwrap gives the cause.
func (e *fatalError) Unwrap() error { return e.error }
