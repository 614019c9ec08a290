package bulk

import (
	"context"
	"sync"
	"time"
)

// maxProbeBackoff is the longest pause of one of those that wait at the same time, so that the end of an outage is noticed.
const maxProbeBackoff = 3 * time.Second

// Recovery ends the pauses of the Loaders of a process when the target accepts a request again. While all are refused, one
// of them tries more often than the others. It is safe for concurrent use; the zero value is ready.
type Recovery struct {
	mu      sync.Mutex
	waiting map[*waiter]struct{}
	probing bool // one of them makes short pauses
}

type waiter struct{ wake context.CancelFunc }

// accepted ends all pauses.
func (r *Recovery) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.waiting {
		w.wake()
	}
}

// wait pauses for d, or until the target accepts a request; in any case for atLeast, which the target asked for.
func (r *Recovery) wait(ctx context.Context, pause func(context.Context, time.Duration) error, d, atLeast time.Duration) error {
	asleep, wake := context.WithCancel(ctx)
	defer wake()
	w := &waiter{wake}
	r.mu.Lock()
	if r.waiting == nil {
		r.waiting = map[*waiter]struct{}{}
	}
	r.waiting[w] = struct{}{}
	probes := !r.probing
	if probes {
		r.probing, d = true, min(d, maxProbeBackoff)
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, w)
		if probes {
			r.probing = false
		}
	}()
	if atLeast > 0 {
		if err := pause(ctx, atLeast); err != nil {
			return err
		}
	}
	if d > atLeast && asleep.Err() == nil {
		if err := pause(asleep, d-atLeast); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return ctx.Err()
}
