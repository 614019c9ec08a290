package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

const (
	leaseOver = "lease over"
	askTime   = 10 * time.Second
	// silentReap is how long after the end of a lease, by this machine's clock, a worker is
	// ended although the store cannot be asked: it may not send anything any more.
	silentReap = 30 * time.Second
	// releaseTime bounds the freeing of a dead worker's lease; after that it runs out by itself.
	releaseTime = 5 * time.Minute
)

// askStore asks the store beside the loop whether the lease of a worker is over, and has the
// worker ended when it is: by now it should have ended by itself.
func (d *Daemon) askStore(s *slot, w Worker, l Lease, late time.Duration) {
	store := d.store
	d.beside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
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
		case err != nil && late > silentReap:
			over = fmt.Sprintf("%s since %v by this machine's clock, and the store does not answer", leaseOver, late.Round(time.Second))
		case err != nil || over == "":
			return
		}
		d.end(s, time.Now(), over)
		d.nudge()
	})
}

// release gives back what a dead worker held, beside the loop, as long as it takes.
func (d *Daemon) release(holder string, l *Lease, cause cms.Cause) {
	store := d.store
	if store == nil || holder == "" && l == nil {
		return
	}
	d.beside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		for ctx.Err() == nil {
			err := d.conf.Task.Free(ctx, store, holder, l, cause)
			if err == nil {
				d.mu.Lock()
				d.waiting = time.Time{} // its item is free now
				d.mu.Unlock()
				d.nudge()
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
func sleep(ctx context.Context, t time.Duration) bool { return rest(ctx, t, nil) }

// poke wakes whoever rests on the channel, now or at its next rest. It waits for nobody.
func poke(soon chan<- struct{}) {
	select {
	case soon <- struct{}{}:
	default:
	}
}

// rest waits until it is poked or the time is over; false when ctx has ended.
func rest(ctx context.Context, pause time.Duration, soon <-chan struct{}) bool {
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
