package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Status returns the node's current view without a request to the store. If the view is old, it waits up to askTimeout for a reading of the
// leader, or triggers a read of the store for the next call.
func (d *Daemon) Status(ctx context.Context) status.Report {
	d.look(ctx)
	return d.snapshot()
}

// look renews an old view for an operator.
func (d *Daemon) look(ctx context.Context) {
	d.mu.Lock()
	now, old := time.Now(), 2*d.conf.ReadInterval
	d.asked = now
	age := now.Sub(d.shown().at)
	ask := age > old && now.Sub(d.readRequested) > old
	if ask {
		d.readRequested = now
		d.readStoreSoon()
	}
	wait := ask && d.conf.Mirror != nil && age > d.fresh()
	d.mu.Unlock()
	if wait {
		d.awaitReading(ctx)
	}
}

// awaitReading blocks until the view is fresh, ctx is done, or askTimeout is over.
func (d *Daemon) awaitReading(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	changed := d.watchers.Subscribe(ctx)
	for ctx.Err() == nil {
		d.mu.Lock()
		young := time.Since(d.shown().at) <= d.fresh()
		d.mu.Unlock()
		if young {
			return
		}
		<-changed // closed when ctx is done
	}
}

// Migration returns the session as this node last read it from the store, or nil. Exit codes depend on it.
func (d *Daemon) Migration() *progress.Migration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastRead.migration
}

func (d *Daemon) snapshot() status.Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, shown := time.Now(), d.shown()
	r := status.Report{StoreError: d.lastRead.err, Migration: shown.migration, Progress: d.view(now)}
	if shown.migration != nil {
		r.Stale = now.Sub(shown.at).Seconds()
	}
	if d.conf.Fleet != nil {
		r.Nodes = d.nodes()
	}
	r.Machines = d.lastRead.machines
	state, reason := d.state()
	r.Node = status.Node{
		Name: d.conf.Name, Version: d.conf.Version, Started: d.started.UTC(), State: state, Reason: reason,
		Wanted: d.wanted, Running: d.running(), Order: d.intent.Revision.Seq,
	}
	r.Workers = make([]status.Worker, 0, len(d.slots))
	for _, s := range d.slots {
		if s.worker != nil || s.n < d.wanted {
			r.Workers = append(r.Workers, d.worker(s, now))
		}
	}
	return r
}

// Running returns the number of workers on this node.
func (d *Daemon) Running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running()
}

// state returns the state of the node, and the reason if any.
func (d *Daemon) state() (state, reason string) {
	switch {
	case d.failed != nil:
		return "failed", fault.Text(d.failed)
	case d.stopping:
		return "stopping", ""
	case !d.store.reached() || !d.known:
		return "starting", d.lastRead.err
	case d.intent.State == session.Pause:
		return "paused", "by " + d.intent.Who
	case d.intent.Drains(d.conf.Name) && d.running() == 0:
		return "drained", "by " + d.intent.Who
	case d.intent.Drains(d.conf.Name):
		return "draining", "by " + d.intent.Who
	case d.done && d.ended():
		return "done", ""
	case d.waits() != "":
		return "waiting", d.waits()
	case d.trouble != "" && !slices.ContainsFunc(d.slots, func(s *slot) bool { return s.lease != nil }):
		return "failed", d.trouble // no worker succeeds, although they are restarted
	}
	for _, s := range d.slots {
		if s.worker != nil && s.sample.Held != "" {
			return "paused", s.sample.Held
		}
	}
	return "running", d.trouble
}

func (d *Daemon) worker(s *slot, now time.Time) status.Worker {
	w := status.Worker{
		Slot: s.n, Started: s.since.UTC(), Indexed: s.sample.Documents - s.sample.Failed, Rate: s.done.View(now.Sub(d.started), nil).Rate,
		Resident: s.memory, Restarts: s.restarts, LastExit: s.lastExit,
	}
	if s.worker == nil {
		switch {
		case now.Before(s.earliest):
			w.State, w.Rate = "backing off", 0
		case now.Before(d.idleUntil):
			w.State, w.Rate = "waiting", 0
		default:
			w.State = "starting"
		}
		return w
	}
	w.PID, w.Phase, w.PhaseState = s.worker.PID(), s.phase.Name, s.phase.State
	if s.lease != nil {
		w.Item, w.Index, w.Shard = s.lease.Item, s.lease.Index, s.lease.Shard
		expiry := s.leaseEnd.Add(d.lastRead.offset).UTC()
		w.Expiry = &expiry
	}
	switch {
	case !s.stopped.IsZero():
		w.State = "handing off"
	case s.lease != nil:
		w.State = "working"
	default:
		w.State = "starting"
	}
	return w
}

// view returns the view of the migration. Until this node has seen the work grow, it estimates the end from the fleet's history.
func (d *Daemon) view(now time.Time) progress.View {
	m := d.shown().migration
	v := d.measure.View(now.Sub(d.started), m)
	if v.State == progress.StateSilent && d.running() > 0 {
		v.State, v.Silent = progress.StateWorking, 0 // this node's own workers
	}
	if m != nil && v.ByteRate == 0 && m.Totals.ItemsOpen > 0 && v.State == progress.StateWorking {
		v.Left = schedule.Estimate(m.Totals.BytesLeft(), d.plan().Throughput)
	}
	return v
}

// Events returns the last events of store and node, at most limit, newest last; limit ≤ 0: all kept events.
func (d *Daemon) Events(_ context.Context, limit int) ([]status.Event, error) {
	return d.events.Last(limit), nil
}

// Items returns the work items as of the last read of the store.
func (d *Daemon) Items(ctx context.Context, f status.ItemFilter) (status.ItemList, error) {
	d.look(ctx)
	d.mu.Lock()
	m, items, why := d.shown().migration, d.shown().items, d.lastRead.err
	d.mu.Unlock()
	if m == nil {
		return status.ItemList{}, errNotRead(why)
	}
	return status.NewItemList(m, items, f), nil
}

// Failures returns the failures as of the last read of the store.
func (d *Daemon) Failures(ctx context.Context) (*status.Failures, error) {
	d.look(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.shown().migration
	if m == nil {
		return nil, errNotRead(d.lastRead.err)
	}
	return d.refused.documents.With(m), nil
}

// Account returns the account of the session as of the last read of the store.
func (d *Daemon) Account(ctx context.Context) (status.Account, error) {
	d.look(ctx)
	d.mu.Lock()
	read, why, refused := *d.shown(), d.lastRead.err, d.refused.documents
	d.mu.Unlock()
	if read.migration == nil {
		return status.Account{}, errNotRead(why)
	}
	return status.NewAccount(read.migration, read.items, refused.With(read.migration), d.events.Last(0)), nil
}

func errNotRead(why string) error {
	return fmt.Errorf("the coordination store was not read yet: %s: %w", why, fault.ErrUnavailable)
}

// Logs returns the last log lines of the node and its workers, at most limit; limit ≤ 0: all kept lines.
func (d *Daemon) Logs(_ context.Context, limit int) []status.LogLine { return d.conf.Logs.Last(limit) }

// ConnectionRefused counts a connection that a socket or port of the API refused.
func (d *Daemon) ConnectionRefused(listener string) { d.metrics.Refused(listener) }

// Metrics returns the handler of the node's metrics in the Prometheus format.
func (d *Daemon) Metrics() http.Handler { return d.metrics.Handler() }

// Produce returns the metrics in OpenTelemetry's format. The error is nil.
func (d *Daemon) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	return d.metrics.Produce(ctx)
}

// loopHangTimeout is the age of the last iteration after which the loop counts as hung.
const loopHangTimeout = 10 * time.Second

// Healthy returns the reason why the process should be restarted, or nil.
func (d *Daemon) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.alive:
		return errors.New("the daemon has ended")
	default:
	}
	if late := time.Since(d.beat); late > loopHangTimeout {
		return fmt.Errorf("the main loop has been hanging for %v", late.Round(time.Second))
	}
	return nil
}

// Ready returns the reason why the node does not work for the migration, or nil. Paused and done nodes are ready.
func (d *Daemon) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.failed != nil:
		return d.failed
	case d.stopping:
		return errors.New("the node is stopping")
	case d.lastRead.err != "":
		return fmt.Errorf("the coordination store: %s", d.lastRead.err)
	case !d.store.reached() || !d.known || d.lastRead.migration == nil:
		return errors.New("the coordination store was not read yet")
	}
	if state, why := d.state(); state == "failed" {
		return errors.New(why)
	}
	return nil
}

// Subscribe returns a channel that receives a value when the status has changed, at most one pending. It is
// closed when ctx is done.
func (d *Daemon) Subscribe(ctx context.Context) <-chan struct{} { return d.watchers.Subscribe(ctx) }
