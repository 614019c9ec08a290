package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const (
	// mirrorTimeout is the maximum age at which a reading of the leader replaces one of this node.
	mirrorTimeout = 3 * time.Minute
	// askTimeout is the time that a status request waits for a reading of the leader if this node's is old.
	askTimeout = 2 * time.Second
	// askedFor is the time after an operator's request during which this node requests the leader's readings often.
	askedFor = 20 * time.Second
	// maxAhead is the maximum time by which a reading may be ahead of the store's clock, as this node extrapolates it.
	maxAhead = 10 * time.Second
)

// shown returns the newer of the leader's reading and this node's own.
func (d *Daemon) shown() *storeState {
	own, other := d.lastRead.migration, d.mirrored.migration
	if other != nil && (own == nil || other.ReadAt.After(own.ReadAt)) {
		return &d.mirrored
	}
	return &d.lastRead
}

// fresh returns the maximum age at which a reading of the leader replaces one of this node. An older one means that the leader is gone.
func (d *Daemon) fresh() time.Duration {
	return min(max(5*d.conf.ReadInterval, 3*d.mirroredEach), mirrorTimeout)
}

// sample adds a reading to the measure of progress if it is the shown one.
func (d *Daemon) sample(read *storeState) {
	if d.shown() != read {
		return
	}
	d.measured = max(d.measured, read.at.Sub(d.started))
	d.measure.Add(d.measured, read.migration.Totals.Work())
}

// publish makes a reading of this node available to other nodes if it is the leader. Without it they read the store themselves.
func (d *Daemon) publish(r *progress.Reading) {
	if d.conf.Mirror == nil || !d.conf.Mirror.Mirrors() {
		return
	}
	if err := d.conf.Mirror.PublishReading(r); err != nil {
		d.log.Debug("status not published", "error", err)
	}
}

// rest blocks until this node has to read the store itself. took is the duration of the last read. It returns false if ctx is done.
func (d *Daemon) rest(ctx context.Context, took time.Duration) bool {
	if d.conf.Mirror == nil {
		return waitOrWake(ctx, d.readPause(took), d.readNow)
	}
	begin, led, asked := time.Now(), d.conf.Mirror.Mirrors(), false
	for {
		leads := d.conf.Mirror.Mirrors()
		if leads && !led {
			return true // the other nodes wait for its first reading
		}
		led = leads
		follows := !leads && d.follow(ctx, asked)
		if asked && !follows {
			return true
		}
		d.readMore(ctx)
		left := time.Until(begin.Add(d.restOf(leads, follows, took)))
		if left <= 0 {
			return true
		}
		asked = false
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(left, d.conf.ReadInterval)):
		case <-d.readNow:
			asked = true
		}
	}
}

// restOf returns the time between two reads of the store by a leader, by a node that follows one, and by other nodes.
func (d *Daemon) restOf(leads, follows bool, took time.Duration) time.Duration {
	switch {
	case leads && d.position().Nodes > 1:
		return max(d.conf.ReadInterval, 4*took)
	case follows:
		return max(d.readPause(took), d.position().MirroredReadInterval())
	}
	return d.readPause(took)
}

// follow gets the leader's reading and reports whether it replaces a read of the store: it is recent, or a recent one was published and no
// operator asked, and this node would not act on it. This node acts only on its own readings.
func (d *Daemon) follow(ctx context.Context, now bool) bool {
	d.mu.Lock()
	asked := now || time.Since(d.asked) < askedFor || d.watchers.Any()
	own := d.lastRead.migration
	known := own != nil && d.current(own.Session)
	d.mu.Unlock()
	if !known { // the store's clock is unknown, or the reading is of a former round
		return false
	}
	m, items, err := d.leadersReading(ctx, asked)
	if err != nil {
		d.log.Debug("status of the leader not available", "error", fault.Text(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	local := time.Now()
	if m != nil && d.current(m.Session) {
		d.show(m, items, local)
	}
	young := local.Sub(d.mirrored.at) < d.fresh()
	if published := d.conf.Mirror.Published(); !young && local.Add(d.lastRead.offset).Sub(published) >= d.fresh() {
		return false
	}
	return !d.mustRead(d.shown().migration.Totals, local) && (!asked || local.Sub(d.shown().at) < d.fresh())
}

// leadersReading returns the sum of the leader's reading; nil if it is not newer, or not of this node's kind of items and round.
func (d *Daemon) leadersReading(ctx context.Context, asked bool) (*progress.Migration, []status.Item, error) {
	store, of, err := d.workStore()
	if err != nil {
		return nil, nil, err
	}
	r, err := d.conf.Mirror.Reading(ctx, asked)
	if err != nil || r == nil || r.Kind != store.Kind() || r.Session != of {
		return nil, nil, err
	}
	m, items, err := status.Sum(r)
	if err != nil {
		return nil, nil, err
	}
	m.Session = of
	return m, items, nil
}

// show replaces the shown reading of the leader, unless m is older, or ahead of the store's clock. d.mu is held.
func (d *Daemon) show(m *progress.Migration, items []status.Item, local time.Time) {
	age := local.Add(d.lastRead.offset).Sub(m.ReadAt)
	was := d.mirrored.migration
	if age < -maxAhead || was != nil && !m.ReadAt.After(was.ReadAt) {
		return
	}
	if was != nil {
		d.mirroredEach = m.ReadAt.Sub(was.ReadAt)
	}
	d.mirrored = storeState{migration: d.withIntent(m), items: items, at: local.Add(-max(age, 0))}
	d.sample(&d.mirrored)
	d.watchers.Notify()
	if s := d.scheduler(); s != nil {
		s.MarkBusy(busyItems(items), local.Add(busyTTL))
	}
}

// mustRead reports whether this node has to read the store as often as without a leader: it acts on the store's contents, or would act on
// the leader's reading.
func (d *Daemon) mustRead(t progress.Counts, now time.Time) bool {
	idle := now.Before(d.idleUntil)
	return d.conf.Scales || d.cutOff || d.lastRead.err != "" || d.done && (d.conf.EndWhenDone || t.ItemsOpen > 0) || idle && t.ItemsOpen > t.Leased
}
