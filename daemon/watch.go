package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

const (
	readTimeout = time.Minute
	eventsEvery = 10 * time.Second
	// recordTimeout limits the time for a record in the store that the node does not need.
	recordTimeout = 5 * time.Second
	// idleFactor is the factor by which the interval grows while the migration is done, paused or drained.
	idleFactor = 5
)

// readLoop reads the store periodically until ctx is done. The interval is at least four times the duration of the last read. In between, a
// node of a fleet shows its leader's readings.
func (d *Daemon) readLoop(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		d.readStore(ctx)
		took := time.Since(begin)
		d.reportExpired(ctx)
		d.reportNodes(ctx)
		d.readMore(ctx)
		if !d.rest(ctx, took) { // readNow: a change that the status should show
			return
		}
	}
}

// readMore reads events and rejected documents, less often than it is called.
func (d *Daemon) readMore(ctx context.Context) {
	if store, err := d.store.coordinator(); err == nil {
		d.events.Read(ctx, store, d.position().Interval(eventsEvery, schedule.EventRate))
	}
	d.readRefused(ctx)
}

// readPause returns the pause before this node's next read of the store, given the duration of the last one.
func (d *Daemon) readPause(took time.Duration) time.Duration {
	least := max(d.conf.ReadInterval, 4*took)
	pause := d.position().ReadInterval(least, took)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running() == 0 && (d.done || d.waits() != "" || d.intent.State != session.Run) && !d.conf.EndWhenDone && d.lastRead.err == "" {
		pause *= idleFactor
	}
	return pause
}

// readStoreSoon triggers a read of the store.
func (d *Daemon) readStoreSoon() { trySend(d.readNow) }

func (d *Daemon) readStore(ctx context.Context) {
	rctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	orders, err := d.connect(rctx)
	if err == nil && d.beforeWork() {
		return // the first result of Work triggers a read
	}
	var m *progress.Migration
	var items []status.Item
	var reading *progress.Reading
	var of string
	if err == nil {
		var store *cms.Coordinator
		if store, of, err = d.workStore(); err == nil {
			reading, err = status.ReadStore(rctx, store)
		}
		if err == nil && store != orders {
			err = reading.ReadRounds(rctx, orders)
		}
	}
	if err == nil {
		m, items, err = status.Sum(reading)
	}
	var machines *status.Machines
	if err == nil && d.conf.Scales {
		machines, err = readMachines(rctx, orders.Store())
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		reading.Session = of
		d.publish(reading)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.watchers.Notify()
	d.lastRead.tried = true
	if of != "" && !d.current(of) {
		d.readStoreSoon() // another round has started meanwhile
		return
	}
	if err != nil {
		if d.lastRead.err == "" {
			d.log.Warn("reading the store failed", "error", err)
		}
		d.lastRead.err = fault.Text(err)
		return
	}
	m.Session = of
	now := time.Now()
	d.lastRead = storeState{migration: d.withIntent(m), items: items, machines: machines, at: now, offset: m.ReadAt.Sub(now), tried: true}
	d.sample(&d.lastRead)
	if s := d.scheduler(); s != nil {
		s.MarkBusy(busyItems(items), now.Add(busyTTL))
	}
	if m.Totals.ItemsOpen > 0 && d.done {
		d.done = false // an item was reopened
	}
	if m.Totals.ItemsOpen > m.Totals.Leased && !d.idleUntil.IsZero() && time.Until(d.idleUntil) > 0 {
		d.idleUntil = time.Time{} // an item is free
		d.wakeUp()
	}
}

// busyTTL is the time for which items seen as leased or done are not proposed.
const busyTTL = 2 * time.Minute

// busyItems returns the ids of the items that are not open.
func busyItems(items []status.Item) map[string]bool {
	busy := map[string]bool{}
	for _, x := range items {
		if x.State != status.Open && x.State != status.Expired {
			busy[x.ID] = true
		}
	}
	return busy
}

// reportExpired stores an event, once for the fleet, for each lease that is over and that no worker has taken over: its worker is dead, cut
// off from the store, or hangs, and the lease was not released.
func (d *Daemon) reportExpired(ctx context.Context) {
	store, _, err := d.workStore()
	if err != nil {
		return
	}
	d.mu.Lock()
	items, offset := d.lastRead.items, d.lastRead.offset
	d.mu.Unlock()
	now := time.Now().Add(offset)
	for _, x := range items {
		key := x.ID + " " + x.Holder
		if x.State != status.Expired || x.Expiry == nil || now.Sub(*x.Expiry) < expiredAfter || d.expired[key] {
			continue
		}
		ectx, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := store.Event(ectx, x.ID, expiredCode, "the lease of "+x.Holder+" ended at "+x.Expiry.Format(time.RFC3339)+" and was not renewed: its worker or machine is gone, or cannot reach the store; the next free worker takes the item")
		cancel()
		if err != nil {
			d.log.Debug("expired lease not reported", "index", x.Index, "shard", x.Shard, "error", err)
			return // retried after the next read
		}
		if len(d.expired) >= maxExpired {
			clear(d.expired)
		}
		d.expired[key] = true
	}
}

const (
	// expiredAfter is the time after its end when a lease is reported that no worker has taken over.
	expiredAfter = 15 * time.Second
	expiredCode  = "lease_expired"
	// maxExpired limits the reports that this node remembers.
	maxExpired = 10_000
)

// readRefused reads the recorded rejected documents, if more documents have failed since the last read.
func (d *Daemon) readRefused(ctx context.Context) {
	store, of, err := d.workStore()
	if err != nil {
		return
	}
	d.mu.Lock()
	m, was := d.shown().migration, d.refused
	d.mu.Unlock()
	if m == nil || m.Totals.Failed == was.failed && of == was.session || time.Now().Before(was.due) {
		return
	}
	rctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	is := refusals{session: of, failed: m.Totals.Failed, due: time.Now().Add(d.position().Interval(eventsEvery, schedule.EventRate))}
	if is.documents, err = status.ReadRefused(rctx, store); err != nil {
		d.log.Debug("reading rejected documents failed", "error", err)
		is.failed, is.documents = was.failed, was.documents
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = is
}

// intentLoop reads the operator's intent periodically until ctx is done.
func (d *Daemon) intentLoop(ctx context.Context) {
	warned := false
	for ctx.Err() == nil {
		store, err := d.store.coordinator()
		if err == nil {
			rctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			i, err := session.OrdersOf(store).Intent(rctx)
			cancel()
			if err == nil {
				d.apply(i)
			}
			d.mu.Lock()
			d.cutOff = err != nil
			d.mu.Unlock()
			switch {
			case err == nil:
				warned = false
				d.followWork(ctx, store)
			case errors.Is(err, cms.ErrStoreGone):
				d.fail(err)
				return
			case !warned && !errors.Is(err, context.Canceled):
				warned = true
				d.log.Warn("reading the orders failed", "error", err)
			}
		}
		pause := d.conf.IntentInterval
		if err != nil {
			pause = min(pause, 100*time.Millisecond)
		}
		if !waitOrWake(ctx, d.position().Interval(pause, schedule.IntentRate), d.readIntentNow) {
			return
		}
	}
}

// position returns the node's position in its fleet, as far as it knows.
func (d *Daemon) position() schedule.NodePosition {
	if d.conf.Position == nil {
		return schedule.NodePosition{}
	}
	return d.conf.Position()
}

// withIntent returns a reading with the intent that this node follows, which the reading may lack; nil for nil.
func (d *Daemon) withIntent(m *progress.Migration) *progress.Migration {
	if m == nil || !d.known {
		return m
	}
	is := *m
	is.Intent = progress.NewIntent(d.intent)
	return &is
}

// apply applies an intent unless a newer version is known.
func (d *Daemon) apply(i session.Intent) {
	d.mu.Lock()
	if d.known && i.Revision.Precedes(d.intent.Revision) {
		d.mu.Unlock()
		return
	}
	moved := !d.known || i.Revision != d.intent.Revision
	changed := !d.known || !i.Same(d.intent)
	if changed && d.known {
		d.log.Info("orders changed", "state", i.State, "workers", i.Workers, "drained", i.Drained, "set", i.Set.String(), "by", i.Who)
		d.events.Add("fleet", "", "intent", i.Since(d.intent)+" by "+i.Who)
	}
	set := !i.Set.Same(d.intent.Set)
	d.intent, d.known = i, true
	if set {
		d.limitsSet()
	}
	d.lastRead.migration, d.mirrored.migration = d.withIntent(d.lastRead.migration), d.withIntent(d.mirrored.migration)
	if changed {
		d.watchers.Notify()
	}
	d.mu.Unlock()
	if changed {
		d.wakeUp()
	}
	if moved && d.conf.Peers != nil {
		d.conf.Peers.IntentFollowed()
	}
}
