package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

const (
	leaseOver         = "lease over"
	storeQueryTimeout = 10 * time.Second
	// unreachableReapDelay is how long after the end of a lease, by this machine's clock, a worker is
	// ended although the store cannot be asked: it may not send anything any more.
	unreachableReapDelay = 30 * time.Second
	// releaseTimeout bounds the freeing of a dead worker's lease; after that it runs out by itself.
	releaseTimeout = 5 * time.Minute
)

// checkLease asks the store beside the loop whether the lease of a worker is over, and has the
// worker ended when it is: by now it should have ended by itself.
func (d *Daemon) checkLease(s *slot, w Worker, l Lease, late time.Duration) {
	store := d.store
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeQueryTimeout)
		over, err := d.conf.Task.Over(ctx, store, l)
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

// release gives back what a dead worker held, beside the loop, as long as it takes.
func (d *Daemon) release(holder string, l *Lease, cause cms.Cause) {
	store := d.store
	if store == nil || holder == "" && l == nil {
		return
	}
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		for ctx.Err() == nil {
			err := d.conf.Task.Free(ctx, store, holder, l, cause)
			if err == nil {
				d.mu.Lock()
				d.idleUntil = time.Time{} // its item is free now
				d.mu.Unlock()
				d.wakeUp()
				return
			}
			d.log.Warn("the lease of a dead worker is not freed yet", "holder", holder, "error", err)
			if d.isStopping() {
				return // it runs out by itself
			}
			if !sleep(ctx, 2*time.Second) {
				return
			}
		}
	})
}

func (d *Daemon) isStopping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping
}

// sleep waits and says whether ctx is still alive.
func sleep(ctx context.Context, t time.Duration) bool { return wait(ctx, t, nil) }

// trySend wakes whoever rests on the channel, now or at its next rest. It waits for nobody.
func trySend(soon chan<- struct{}) {
	select {
	case soon <- struct{}{}:
	default:
	}
}

// wait waits until it is poked or the time is over; false when ctx has ended.
func wait(ctx context.Context, pause time.Duration, soon <-chan struct{}) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soon:
	case <-t.C:
	}
	return true
}
