package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const (
	// mirrorTimeout is the longest age up to which a reading of the leader saves this node its own.
	mirrorTimeout = time.Minute
	// askTimeout is the time that a status waits for a reading of the leader when this node's is old.
	askTimeout = 2 * time.Second
	// askedFor is for how long after an operator has asked this node follows the leader's readings closely.
	askedFor = 20 * time.Second
	// maxAhead is the maximum time by which a reading may be ahead of the store's clock as this node remembers it.
	maxAhead = 10 * time.Second
)

// shown returns the newer reading, of the leader or this node's own.
func (d *Daemon) shown() *storeState {
	own, other := d.lastRead.migration, d.mirrored.migration
	if other != nil && (own == nil || other.ReadAt.After(own.ReadAt)) {
		return &d.mirrored
	}
	return &d.lastRead
}

// fresh returns the age up to which a reading of the leader saves this node its own: a leader that is due is gone.
func (d *Daemon) fresh() time.Duration {
	return min(max(5*d.conf.ReadInterval, 3*d.mirroredEach), mirrorTimeout)
}

// sample adds a reading to the measure of progress, if it is the current one.
func (d *Daemon) sample(read *storeState) {
	if d.shown() != read {
		return
	}
	d.measured = max(d.measured, read.at.Sub(d.started))
	d.measure.Add(d.measured, read.migration.Totals.Work())
}

// publish replicates this node's reading if it is the leader. Without it the others read the store themselves.
func (d *Daemon) publish(ctx context.Context, r *progress.Reading) {
	if d.conf.Mirror == nil || !d.conf.Mirror.Mirrors() {
		return
	}
	if err := d.conf.Mirror.PublishReading(ctx, r); err != nil {
		d.log.Debug("reading_not_published", "error", err)
	}
}

// rest blocks until this node is to read the store itself; took is the duration of the last read. It reports false if ctx has ended.
func (d *Daemon) rest(ctx context.Context, took time.Duration) bool {
	if d.conf.Mirror == nil {
		return waitOrWake(ctx, d.readPause(took), d.readNow)
	}
	end, led := time.Now(), d.conf.Mirror.Mirrors()
	for begin, asked := end, false; ; {
		leads := d.conf.Mirror.Mirrors()
		switch end = begin.Add(d.readPause(took)); {
		case leads != led && leads:
			return true // the others wait for its first reading
		case leads && d.position().Nodes > 1:
			end = begin.Add(max(d.conf.ReadInterval, 4*took))
		case !leads:
			if d.follow(asked) {
				end = begin.Add(max(d.readPause(took), d.position().MirroredReadInterval()))
			} else if asked {
				return true
			}
		}
		d.readMore(ctx)
		pause := time.NewTimer(min(time.Until(end), d.conf.ReadInterval))
		asked = false
		select {
		case <-ctx.Done():
			pause.Stop()
			return false
		case <-pause.C:
		case <-d.readNow:
			if asked = true; leads {
				return true
			}
		}
		pause.Stop()
		if led = leads; !time.Now().Before(end) {
			return true
		}
	}
}

// follow takes the leader's reading and reports whether it saves this node its own: it is recent, or published and not asked for,
// and shows nothing that this node would act on. In any case, this node acts only on its own reading of the store.
func (d *Daemon) follow(now bool) bool {
	d.mu.Lock()
	asked := now || time.Since(d.asked) < askedFor || d.watchers.Any()
	offset, known := d.lastRead.offset, d.lastRead.migration != nil
	d.mu.Unlock()
	store, err := d.store.coordinator()
	if err != nil || !known { // nor is the store's clock
		return false
	}
	r, err := d.conf.Mirror.Reading(asked)
	var m *progress.Migration
	var items []status.Item
	if err == nil && r != nil && r.Kind == store.Kind() {
		m, items, err = status.Sum(r)
	}
	if err != nil {
		d.log.Debug("reading_of_the_leader_not_available", "error", fault.Text(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	local := time.Now()
	if m != nil {
		m.Session = d.conf.Session
		age := local.Add(offset).Sub(m.ReadAt)
		if was := d.mirrored.migration; age >= -maxAhead && (was == nil || m.ReadAt.After(was.ReadAt)) {
			if was != nil {
				d.mirroredEach = m.ReadAt.Sub(was.ReadAt)
			}
			d.mirrored = storeState{migration: d.withIntent(m), items: items, at: local.Add(-max(age, 0))}
			d.sample(&d.mirrored)
			d.watchers.Notify()
			if d.conf.Scheduler != nil {
				d.conf.Scheduler.MarkBusy(busyItems(items), local.Add(busyTTL))
			}
		}
	}
	if local.Add(offset).Sub(d.conf.Mirror.Published()) >= d.fresh() && local.Sub(d.mirrored.at) >= d.fresh() {
		return false
	}
	return !d.mustRead(d.shown().migration.Totals, local) && (!asked || local.Sub(d.shown().at) < d.fresh())
}

// mustRead reports whether this node reads the store as often as without a leader: it acts on the store's contents, or the
// leader's reading shows something that it would act on.
func (d *Daemon) mustRead(t progress.Counts, now time.Time) bool {
	idle := now.Before(d.idleUntil)
	return d.conf.Scales || d.cutOff || d.lastRead.err != "" || d.done && (d.conf.EndWhenDone || t.ItemsOpen > 0) || idle && t.ItemsOpen > t.Leased
}
