package retry

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Outage limits the time for which calls are retried without a success. It is safe for concurrent use: the success of one caller ends the
// outage for all.
type Outage struct {
	Limit  time.Duration
	Now    func() time.Duration // a monotonic clock
	Passes func(err error) bool // whether the call may succeed later; nil: errors.Is(err, fault.ErrUnavailable)
	Begins func(err error)      // called with the first error of an outage; may be nil

	mu      sync.Mutex
	lasts   bool
	since   time.Duration
	success time.Duration // when the last call succeeded
}

// Over records a success.
func (o *Outage) Over() { o.OverAt(o.Now()) }

// OverAt records a success at an earlier time of the clock. An outage that started later continues.
func (o *Outage) OverAt(at time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lasts, o.success = o.lasts && o.since > at, max(o.success, at)
}

// Check records the result of a call that started at a time of the clock. It returns nil after a success and while the call may be retried.
// Otherwise it returns err, with the limit if that has been exceeded.
func (o *Outage) Check(started time.Duration, err error) error {
	switch {
	case err == nil:
		o.Over()
		return nil
	case !passes(o.Passes, err):
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.lasts {
		o.lasts, o.since = true, max(started, o.success)
		if o.Begins != nil {
			o.Begins(err)
		}
	}
	if o.Now()-o.since > o.Limit {
		return fmt.Errorf("gave up after %v without success; run the same command again to continue: %w", o.Limit, err)
	}
	return nil
}

// Do calls f, with pauses, until it succeeds or must not be retried. It returns the error of sleep if that fails.
func (o *Outage) Do(ctx context.Context, pause time.Duration, sleep func(context.Context, time.Duration) error, f func(context.Context) error) error {
	for {
		started := o.Now()
		err := f(ctx)
		if cerr := o.Check(started, err); err == nil || cerr != nil {
			return cerr
		}
		if serr := sleep(ctx, pause); serr != nil {
			return serr
		}
	}
}
