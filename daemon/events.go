package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Sink delivers events to other systems: a webhook or a command.
type Sink interface {
	Name() string
	Deliver(ctx context.Context, e status.Event) error
}

const (
	eventsEvery   = 10 * time.Second
	eventsTimeout = 5 * time.Second // of the last read and of the last record
	// visibleWithin is the maximum time from the timestamp of an event until all nodes can read it.
	visibleWithin = time.Minute
	// startSlack is the maximum age of an event before the node's first start to count as new: clocks of the store's nodes differ.
	startSlack = time.Second
)

// eventBus keeps the last events and passes them to the sinks without blocking the caller. It offers an event of the store to a sink again
// until it is delivered, and records deliveries in the store, so that a restarted node neither repeats nor loses an event.
type eventBus struct {
	node    string
	started time.Time
	metrics *metrics.Registry
	log     *slog.Logger
	sinks   []*sinkWorker
	closing chan struct{} // closed when the sinks have to end
	limit   time.Duration // of the time that they may take then
	due     time.Time     // time of the next read
	// work returns the session whose items the workers process.
	work func() (store *cms.Coordinator, session string, err error)

	mu     sync.Mutex
	events []status.Event
	known  map[string]bool // ids of the store's events
	store  *cms.Coordinator
	from   int64         // earlier events of the store, in ms by its clock, are not delivered
	stored []storedEvent // since from, in order of time
	saved  bool          // the record in the store is current

	saving sync.Mutex // serializes writes of the record
}

type storedEvent struct {
	id string
	at int64
}

func newEventBus(node string, sinks []Sink, work func() (*cms.Coordinator, string, error), m *metrics.Registry, log *slog.Logger) *eventBus {
	b := &eventBus{node: node, work: work, started: time.Now(), metrics: m, log: log, closing: make(chan struct{}), known: map[string]bool{}}
	for _, s := range sinks {
		b.sinks = append(b.sinks, newSinkWorker(s, b))
	}
	return b
}

// run delivers events until close is called, then the queued ones within its limit.
func (b *eventBus) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range b.sinks {
		wg.Go(func() { s.run(ctx) })
	}
	ended := make(chan struct{})
	go func() { defer close(ended); wg.Wait() }()
	<-b.closing
	t := time.NewTimer(b.limit)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		cancel()
		<-ended
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), eventsTimeout)
	defer end()
	b.save(last)
}

// close reads the events of the store a last time, if it was reached. Then run returns once all are delivered, or after limit.
func (b *eventBus) close(ctx context.Context, store *connection, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventsTimeout)
	defer cancel()
	if store, err := store.coordinator(); err == nil && len(b.sinks) > 0 {
		b.readNow(ctx, store)
	}
	b.limit = limit
	close(b.closing)
}

// add adds an event of this node. about is the lease that it concerns, or nil.
func (b *eventBus) add(subject string, about *Lease, code, detail string) {
	e := status.Event{Time: time.Now().UTC(), Node: b.node, Subject: subject, Code: code, Detail: detail}
	if about != nil {
		e.Subject, e.Item = about.subject()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(e)
	for _, s := range b.sinks {
		if !s.offer(e) {
			b.metrics.Event(s.sink.Name(), "dropped")
		}
	}
}

// keep adds an event to the shown ones. b.mu is held.
func (b *eventBus) keep(e status.Event) {
	b.events = append(b.events, e)
	if over := len(b.events) - status.KeptEvents; over > 0 {
		b.events = slices.Delete(b.events, 0, over)
	}
}

// last returns the newest events, newest last.
func (b *eventBus) last(limit int) []status.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	sorted := slices.Clone(b.events)
	slices.SortStableFunc(sorted, func(x, y status.Event) int { return x.Time.Compare(y.Time) })
	if limit > 0 && len(sorted) > limit {
		sorted = sorted[len(sorted)-limit:]
	}
	return sorted
}

// read reads the events of the store when that is due.
func (b *eventBus) read(ctx context.Context, to *connection, every time.Duration) {
	store, err := to.coordinator()
	if err != nil || time.Now().Before(b.due) {
		return
	}
	b.due = time.Now().Add(every)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.readNow(ctx, store)
}

func (b *eventBus) readNow(ctx context.Context, store *cms.Coordinator) {
	if err := b.prepare(ctx, store); err != nil {
		b.log.Debug("delivered events unreadable", "error", err)
		return
	}
	all, err := b.readAll(ctx, store)
	if err != nil {
		b.log.Debug("events unreadable", "error", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range all {
		at, isNew := e.Time.UnixMilli(), !b.known[e.ID]
		if isNew {
			b.known[e.ID] = true
			b.keep(e)
		}
		if at < b.from {
			continue
		}
		if isNew {
			b.stored = append(b.stored, storedEvent{e.ID, at})
		}
		for _, s := range b.sinks {
			s.offer(e) // after a full queue, the next read offers it again
		}
	}
	slices.SortStableFunc(b.stored, func(x, y storedEvent) int { return cmp.Compare(x.at, y.at) })
}

// readAll returns the events of the session of the orders, and of the session whose items the workers process, if that differs.
func (b *eventBus) readAll(ctx context.Context, store *cms.Coordinator) ([]status.Event, error) {
	all, err := status.ReadEvents(ctx, store)
	if err != nil {
		return nil, err
	}
	work, of, err := b.work()
	if err != nil || work == store || work == nil {
		return all, nil //nolint:nilerr // no round has started yet
	}
	more, err := status.ReadEvents(ctx, work)
	for i := range more {
		more[i].ID = of + " " + more[i].ID // sessions use the same ids
	}
	return append(all, more...), err
}

// prepare reads, at the first contact with the store, the record of delivered events. A node without a record delivers the events since its
// own start, by the store's clock.
func (b *eventBus) prepare(ctx context.Context, store *cms.Coordinator) error {
	b.mu.Lock()
	known := b.store != nil
	b.mu.Unlock()
	if known || len(b.sinks) == 0 {
		return nil
	}
	was, err := session.DeliveriesOf(store).Read(ctx, b.node)
	isNew := errors.Is(err, cms.ErrNotFound)
	if err != nil && !isNew {
		return err
	}
	if isNew {
		now, maxErr, err := store.Leases().Now(ctx)
		if err != nil {
			return err
		}
		was.From = now.Add(-time.Since(b.started) - maxErr - startSlack).UnixMilli()
	}
	b.mu.Lock()
	b.store, b.from, b.saved = store, was.From, !isNew
	for _, s := range b.sinks {
		for _, id := range was.Sinks[s.sink.Name()] {
			s.taken[id] = true
		}
	}
	b.mu.Unlock()
	b.save(ctx)
	return nil
}

// settle records that the delivery of an event has ended, and saves the record when the queue is empty.
func (b *eventBus) settle(ctx context.Context, s *sinkWorker, e status.Event, ok bool) {
	if e.ID == "" {
		return
	}
	b.mu.Lock()
	delete(s.queued, e.ID)
	if ok {
		s.taken[e.ID], b.saved = true, false
	}
	b.mu.Unlock()
	if ok && len(s.queue) == 0 {
		b.save(ctx)
	}
}

// save records the delivered events. After a failure a restarted node repeats events at worst.
func (b *eventBus) save(ctx context.Context) {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.mu.Lock()
	store, done := b.store, b.saved
	if store == nil || done {
		b.mu.Unlock()
		return
	}
	d := b.delivered()
	b.saved = true
	b.mu.Unlock()
	if err := session.DeliveriesOf(store).Note(ctx, b.node, d); err != nil {
		b.log.Debug("delivered events not recorded", "error", err)
		b.mu.Lock()
		b.saved = false
		b.mu.Unlock()
	}
}

// delivered returns the record, without the events that every sink has accepted. b.mu is held.
func (b *eventBus) delivered() session.Delivered {
	for _, x := range b.stored {
		if slices.ContainsFunc(b.sinks, func(s *sinkWorker) bool { return !s.taken[x.id] }) {
			break
		}
		b.from = max(b.from, x.at-visibleWithin.Milliseconds())
	}
	b.stored = slices.DeleteFunc(b.stored, func(x storedEvent) bool {
		old := x.at < b.from
		for _, s := range b.sinks {
			if old {
				delete(s.taken, x.id)
			}
		}
		return old
	})
	d := session.Delivered{From: b.from, Sinks: map[string][]string{}}
	for _, s := range b.sinks {
		for id := range s.taken {
			d.Sinks[s.sink.Name()] = append(d.Sinks[s.sink.Name()], id)
		}
		slices.Sort(d.Sinks[s.sink.Name()])
	}
	return d
}
