package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Work is the session whose items the workers of a node process if a fleet follows a cluster: each round is a separate session.
type Work struct {
	Store   *cms.Coordinator // of its items
	Session string           // its name
	Round   json.RawMessage  // passed to the workers
	// Waits is the reason why the workers have no work at present; "": they work.
	Waits string
	// Over means that following has ended: no other session comes.
	Over bool
}

// followWork updates the session that the workers process. After an error the previous one stays: the store of a new round may not exist
// yet, and the store of a former round may be gone. It ends the node if what the session created was removed.
func (d *Daemon) followWork(ctx context.Context, orders *cms.Coordinator) {
	if d.conf.Work == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeQueryTimeout)
	defer cancel()
	w, err := d.conf.Work(ctx, orders)
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, session.ErrUndone) && d.failed == nil {
		d.failed = err
		d.wakeUp()
	}
	if err != nil {
		if why := fault.Text(err); why != d.workError && ctx.Err() == nil {
			d.workError = why
			d.log.Info("the round cannot be worked on yet", "reason", why)
		}
		return
	}
	was := d.work
	d.work, d.workError = &w, ""
	if was == nil || was.Session != w.Session {
		d.log.Info("this node works on a round", "session", w.Session)
		d.done, d.idleUntil, d.trouble = false, time.Time{}, ""
		d.measure, d.mirrored = progress.Measure{Lag: progress.RecordLag}, storeState{}
		for _, s := range d.slots { // failures in the former round do not delay this one
			s.crashes, s.earliest = 0, time.Time{}
		}
	}
	if was == nil || was.Session != w.Session || was.Waits != w.Waits || was.Over != w.Over {
		if w.Over {
			d.done = true
		}
		d.watchers.Notify()
		d.readStoreSoon()
		d.wakeUp()
	}
}

// beforeWork reports whether the session of the items has not been requested yet.
func (d *Daemon) beforeWork() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conf.Work != nil && d.work == nil && d.workError == ""
}

// workStore returns the store of the items that the workers process, and the name of their session; fault.ErrUnavailable before it is
// known.
func (d *Daemon) workStore() (*cms.Coordinator, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workStoreLocked()
}

// workStoreLocked is workStore while d.mu is held.
func (d *Daemon) workStoreLocked() (*cms.Coordinator, string, error) {
	if d.conf.Work == nil {
		store, err := d.store.coordinator()
		return store, d.conf.Session, err
	}
	if d.work == nil {
		return nil, "", errNotRead(d.workError)
	}
	return d.work.Store, d.work.Session, nil
}

// waits returns the reason why the workers have no work until the next round, or "". d.mu is held.
func (d *Daemon) waits() string {
	switch {
	case d.conf.Work == nil:
		return ""
	case d.work == nil:
		return "no round has started yet"
	case d.work.Waits == "" && d.done && !d.work.Over:
		return "no item of the round is left"
	}
	return d.work.Waits
}

// later reports whether the workers process a round after the first, which is a separate session. d.mu is held.
func (d *Daemon) later() bool {
	orders, err := d.store.coordinator()
	return err == nil && d.work != nil && d.work.Store != orders
}

// scheduler returns the hints on the order of items, or nil. They apply only to the first round, the migration: later changes of a shard do
// not depend on its size. d.mu is held.
func (d *Daemon) scheduler() *schedule.Scheduler {
	if d.later() {
		return nil
	}
	return d.conf.Scheduler
}

// ended reports whether no more work comes after the present items are done. d.mu is held.
func (d *Daemon) ended() bool { return d.conf.Work == nil || d.work != nil && d.work.Over }

// current reports whether the workers process the items of a session. d.mu is held.
func (d *Daemon) current(session string) bool {
	return d.conf.Work == nil || d.work != nil && d.work.Session == session
}
