package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// PausedError reports that the operator does not want the fleet to run, or wants no workers.
type PausedError struct{ Intent Intent }

// Error names the operator and the desired state.
func (e *PausedError) Error() string {
	if e.Intent.State == Run {
		return fmt.Sprintf("the operator (%s) wants no workers: scale 0", e.Intent.Who)
	}
	return fmt.Sprintf("the operator (%s) wants no work: %s", e.Intent.Who, e.Intent.State)
}

// Watch returns a context that ends when the operator no longer wants the fleet to run, with a *PausedError as its cause, or when the store
// was deleted, with cms.ErrStoreGone: then no order arrives and nothing can be completed. It reads the store at the interval every, and
// calls set with the operator's limits, before it returns and after each change. If the fleet is not to run already, it returns the
// *PausedError. stop must be called in any case.
func (s Orders) Watch(ctx context.Context, every time.Duration, set func(Limits), log *slog.Logger) (watched context.Context, stop func(), err error) {
	i, err := s.Intent(ctx)
	if err == nil && i.State != Run {
		return ctx, func() {}, &PausedError{i}
	}
	is := i.Set
	set(is)
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-t.C:
			}
			i, err := s.Intent(watched)
			switch {
			case errors.Is(err, cms.ErrStoreGone):
				log.Error("coordination store is gone: handing off", "error", err)
				cancel(err)
			case err == nil && i.State != Run:
				log.Info("the operator wants no work: handing off", "intent", i.State, "who", i.Who)
				cancel(&PausedError{i})
			case err == nil && !i.Set.Same(is):
				log.Info("limits changed", "set", i.Set.String(), "who", i.Who)
				is = i.Set
				set(is)
			}
		}
	}()
	return watched, func() { cancel(nil); <-ended }, nil
}
