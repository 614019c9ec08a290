package daemon

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Work is the session whose items the workers of a node work on, where a fleet follows a cluster: each round is a session of its own.
type Work struct {
	Store   *cms.Coordinator // of its items
	Session string           // its name
	Round   json.RawMessage  // is passed to the workers
	// Waits is why the workers have nothing to do for now; "": they work.
	Waits string
	// Over means that the following has ended: no other session comes.
	Over bool
}

// followWork asks which session the workers work on. An error leaves the last one: a round that has just started has no store yet, and
// the store of a former one may be gone.
func (d *Daemon) followWork(ctx context.Context, orders *cms.Coordinator) {
	if d.conf.Work == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeQueryTimeout)
	defer cancel()
	w, err := d.conf.Work(ctx, orders)
	d.mu.Lock()
	defer d.mu.Unlock()
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

// beforeWork reports whether the session that the workers work on was not asked for yet.
func (d *Daemon) beforeWork() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conf.Work != nil && d.work == nil && d.workError == ""
}

// workStore returns the store of the items that the workers work on, and the name of their session; fault.ErrUnavailable before it is
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

// waits returns why the workers have nothing to do until the next round; "": they have. d.mu is held.
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

// later reports whether the workers work on a round after the first, which is a session of its own. d.mu is held.
func (d *Daemon) later() bool {
	orders, err := d.store.coordinator()
	return err == nil && d.work != nil && d.work.Store != orders
}

// scheduler returns the hints about the order of items; nil for none. They are about the first round alone, which is the migration:
// how much of a shard changed later does not depend on its size. d.mu is held.
func (d *Daemon) scheduler() *schedule.Scheduler {
	if d.later() {
		return nil
	}
	return d.conf.Scheduler
}

// ended reports whether no more work comes when all present items are done. d.mu is held.
func (d *Daemon) ended() bool { return d.conf.Work == nil || d.work != nil && d.work.Over }

// current reports whether a session is the one whose items the workers work on. d.mu is held.
func (d *Daemon) current(session string) bool {
	return d.conf.Work == nil || d.work != nil && d.work.Session == session
}
