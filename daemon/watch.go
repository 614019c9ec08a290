package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/schedule"
)

const (
	readTime = time.Minute
	// idleReads: a migration that is done, paused or drained is read so many times less often.
	idleReads = 5
)

// keepReading reads the store now and then, as often as it bears: the reading may take at most
// a fifth of the time.
func (d *Daemon) keepReading(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		d.readStore(ctx)
		took := time.Since(begin)
		pause := d.place().Reading(max(d.conf.ReadStore, 4*took), took)
		d.mu.Lock()
		if d.running() == 0 && (d.done || d.intent.State != cms.Run) && !d.conf.EndWhenDone && d.seen.err == "" {
			pause *= idleReads
		}
		d.mu.Unlock()
		d.events.read(ctx, d.coordinator(), d.place().Every(eventsEvery, schedule.Events))
		d.readRefused(ctx)
		if !rest(ctx, pause, d.readSoon) { // soon: something ended that a status should show
			return
		}
	}
}

// readAgain has the store read at once. The mutex is held, or nobody else has the daemon yet.
func (d *Daemon) readAgain() { poke(d.readSoon) }

func (d *Daemon) readStore(ctx context.Context) {
	rctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	err := d.connect(rctx)
	var m *progress.Migration
	var items []status.Item
	if err == nil {
		m, items, err = d.conf.Task.Read(rctx, d.coordinator())
	}
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.tell()
	d.seen.tried = true
	if err != nil {
		if d.seen.err == "" {
			d.log.Warn("the coordination store cannot be read", "error", err)
		}
		d.seen.err = fault.Text(err)
		return
	}
	m.Session = d.conf.Session
	now := time.Now()
	d.seen = reading{migration: m, items: items, at: now, offset: m.ReadAt.Sub(now), tried: true}
	d.rates = addPoint(d.rates, ratePoint{at: now, documents: m.Totals.Indexed + m.Totals.Failed, bytes: m.Totals.BytesDone})
	if d.conf.Scheduler != nil {
		d.conf.Scheduler.Saw(busyItems(items), now.Add(busyFor))
	}
	if m.Totals.ItemsOpen > 0 && d.done {
		d.done = false // an item was opened again
	}
	if m.Totals.ItemsOpen > m.Totals.Leased && !d.waiting.IsZero() && time.Until(d.waiting) > 0 {
		d.waiting = time.Time{} // something is free
		d.nudge()
	}
}

// busyFor is how long a reading of the store speaks against items; a store that cannot be read says nothing.
const busyFor = 2 * time.Minute

// busyItems are those that nobody can take.
func busyItems(items []status.Item) map[string]bool {
	busy := map[string]bool{}
	for _, x := range items {
		if x.State != "open" {
			busy[x.ID] = true
		}
	}
	return busy
}

// readRefused reads which documents a fleet noted as refused, when more have failed since the last look.
func (d *Daemon) readRefused(ctx context.Context) {
	d.mu.Lock()
	store, m, was := d.store, d.seen.migration, d.refused
	d.mu.Unlock()
	if store == nil || m == nil || m.Totals.Failed == was.failed || time.Now().Before(was.due) {
		return
	}
	rctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	is := refusals{failed: m.Totals.Failed, due: time.Now().Add(eventsEvery)}
	var err error
	if is.groups, err = progress.ReadRefused(rctx, store); err != nil {
		d.log.Debug("refused documents cannot be read", "error", err)
		is.failed, is.groups = was.failed, was.groups
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = is
}

// keepIntent reads what the operator wants.
func (d *Daemon) keepIntent(ctx context.Context) {
	warned := false
	for ctx.Err() == nil {
		if store := d.coordinator(); store != nil {
			rctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			i, err := store.Intent(rctx)
			cancel()
			switch {
			case err == nil:
				warned = false
				d.apply(i)
			case !warned && !errors.Is(err, context.Canceled):
				warned = true
				d.log.Warn("what the operator wants cannot be read", "error", err)
			}
		}
		pause := d.conf.PollIntent
		if d.coordinator() == nil {
			pause = min(pause, 100*time.Millisecond)
		}
		if !rest(ctx, d.place().Every(pause, schedule.Intents), d.wishSoon) {
			return
		}
	}
}

// place is where the node stands in its fleet, as far as it knows.
func (d *Daemon) place() schedule.Place {
	if d.conf.Place == nil {
		return schedule.Place{}
	}
	return d.conf.Place()
}

// apply takes an intent over unless a newer one is known.
func (d *Daemon) apply(i cms.Intent) {
	d.mu.Lock()
	if d.known && i.When.Before(d.intent.When) {
		d.mu.Unlock()
		return
	}
	changed := !d.known || !i.Same(d.intent)
	if changed && d.known {
		d.log.Info("the operator's intent changed", "state", i.State, "workers", i.Workers, "drained", i.Drained, "who", i.Who)
		d.events.add("fleet", nil, "intent", string(i.State)+" by "+i.Who)
	}
	d.intent, d.known = i, true
	if d.seen.migration != nil {
		m := *d.seen.migration
		m.Intent = progress.Intent{State: lower(i.State), Workers: i.Workers}
		d.seen.migration = &m
	}
	if changed {
		d.tell()
	}
	d.mu.Unlock()
	if changed {
		d.nudge()
	}
}

// ratePoint is how far the migration was at an instant.
type ratePoint struct {
	at               time.Time
	documents, bytes int64
}

const rateWindow = time.Minute

// addPoint keeps the points of the last minute and one before it.
func addPoint(points []ratePoint, p ratePoint) []ratePoint {
	points = append(points, p)
	for len(points) > 2 && p.at.Sub(points[1].at) >= rateWindow {
		points = points[1:]
	}
	return points
}
