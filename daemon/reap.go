package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	leaseOver         = "lease over"
	storeQueryTimeout = 10 * time.Second
	// unreachableReapDelay is the time after the end of a lease, by this machine's clock, when a worker is stopped even if the store does
	// not answer: it must not send documents any more.
	unreachableReapDelay = 30 * time.Second
	// releaseTimeout limits the release of a dead worker's lease; after that the lease expires.
	releaseTimeout = 5 * time.Minute
)

// checkLease checks in the background whether the lease of a worker is over by the store's clock, and then stops the worker: it should have
// stopped by itself before.
func (d *Daemon) checkLease(s *slot, w Worker, store *cms.Coordinator, l Lease, late time.Duration) {
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeQueryTimeout)
		over, err := leaseOverSince(ctx, store, l)
		cancel()
		if over != "" {
			over = leaseOver + ": " + over
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if s.worker != w || s.lease == nil || s.lease.Item != l.Item || s.lease.Holder != l.Holder {
			return // it ended meanwhile
		}
		switch {
		case err != nil && late > unreachableReapDelay:
			over = fmt.Sprintf("%s since %v by this machine's clock, and the store does not answer", leaseOver, late.Round(time.Second))
		case err != nil || over == "":
			return
		}
		d.stopWorker(s, time.Now(), over)
		d.wakeUp()
	})
}

// release releases the lease of a dead worker in the store of its items in the background, with retries until releaseTimeout.
func (d *Daemon) release(store *cms.Coordinator, holder string, l *Lease, cause cms.Cause) {
	if holder == "" && l == nil {
		return
	}
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		for ctx.Err() == nil {
			err := freeLease(ctx, store, holder, l, cause)
			if err == nil {
				d.mu.Lock()
				d.idleUntil = time.Time{} // its item is now free
				d.mu.Unlock()
				d.wakeUp()
				return
			}
			if errors.Is(err, cms.ErrStoreGone) {
				if d.conf.Work == nil { // otherwise the records of a former round were removed
					d.fail(err)
				}
				return
			}
			d.log.Warn("releasing a lease failed", "holder", holder, "error", err)
			if d.isEnding() {
				return // it expires
			}
			if wait.For(ctx, 2*time.Second) != nil {
				return
			}
		}
	})
}

func (d *Daemon) isEnding() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping || d.failed != nil
}

// trySend sets the one-element wake-up channel without blocking.
func trySend(soon chan<- struct{}) {
	select {
	case soon <- struct{}{}:
	default:
	}
}

// waitOrWake waits for d or until soon receives a value. It returns false if ctx is done.
func waitOrWake(ctx context.Context, d time.Duration, soon <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soon:
	case <-t.C:
	}
	return true
}
