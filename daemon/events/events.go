// Package events keeps the last events of a node, of its fleet and of its session, and delivers them to other systems.
package events

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
	readTimeout = time.Minute
	lastTimeout = 5 * time.Second // of the last read and of the last record
	// visibleWithin is the maximum time from the timestamp of an event until all nodes can read it.
	visibleWithin = time.Minute
	// startSlack is the maximum age of an event before the node's first start to count as new: clocks of the store's nodes differ.
	startSlack = time.Second
)

// Config of a Bus.
type Config struct {
	Node  string
	Sinks []Sink // receive every event
	// Work returns the session whose items the workers process.
	Work    func() (store *cms.Coordinator, session string, err error)
	Metrics *metrics.Registry
	Log     *slog.Logger
}

// Bus keeps the last events and passes them to the sinks without blocking the caller. It offers an event of the store to a sink again
// until it is delivered, and records deliveries in the store, so that a restarted node neither repeats nor loses an event.
type Bus struct {
	conf    Config
	started time.Time
	sinks   []*sinkWorker
	closing chan struct{} // closed when the sinks have to end
	limit   time.Duration // of the time that they may take then
	due     time.Time     // time of the next read

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

// New returns the bus of a node that starts now.
func New(conf Config) *Bus {
	b := &Bus{conf: conf, started: time.Now(), closing: make(chan struct{}), known: map[string]bool{}}
	for _, s := range conf.Sinks {
		b.sinks = append(b.sinks, newSinkWorker(s, b))
	}
	return b
}

// Run delivers events until Close is called, then the queued ones within its limit.
func (b *Bus) Run(ctx context.Context) {
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
	last, end := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer end()
	b.save(last)
}

// Close reads the events of the store a last time; nil: it was not reached. Then Run returns once all are delivered, or after limit.
func (b *Bus) Close(ctx context.Context, store *cms.Coordinator, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if store != nil && len(b.sinks) > 0 {
		b.readNow(ctx, store)
	}
	b.limit = limit
	close(b.closing)
}

// Add adds an event of this node. item is the id that commands accept; "": none.
func (b *Bus) Add(subject, item, code, detail string) {
	e := status.Event{Time: time.Now().UTC(), Node: b.conf.Node, Subject: subject, Item: item, Code: code, Detail: detail}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(e)
	for _, s := range b.sinks {
		if !s.offer(e) {
			b.conf.Metrics.Event(s.sink.Name(), "dropped")
		}
	}
}

// keep adds an event to the shown ones. b.mu is held.
func (b *Bus) keep(e status.Event) {
	b.events = append(b.events, e)
	if over := len(b.events) - status.KeptEvents; over > 0 {
		b.events = slices.Delete(b.events, 0, over)
	}
}

// Last returns the newest events, newest last.
func (b *Bus) Last(limit int) []status.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	sorted := slices.Clone(b.events)
	slices.SortStableFunc(sorted, func(x, y status.Event) int { return x.Time.Compare(y.Time) })
	if limit > 0 && len(sorted) > limit {
		sorted = sorted[len(sorted)-limit:]
	}
	return sorted
}

// Read reads the events of the store, unless the last read was started less than every ago.
func (b *Bus) Read(ctx context.Context, store *cms.Coordinator, every time.Duration) {
	if time.Now().Before(b.due) {
		return
	}
	b.due = time.Now().Add(every)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.readNow(ctx, store)
}

func (b *Bus) readNow(ctx context.Context, store *cms.Coordinator) {
	if err := b.prepare(ctx, store); err != nil {
		b.conf.Log.Debug("delivered events unreadable", "error", err)
		return
	}
	all, err := b.readAll(ctx, store)
	if err != nil {
		b.conf.Log.Debug("events unreadable", "error", err)
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
func (b *Bus) readAll(ctx context.Context, store *cms.Coordinator) ([]status.Event, error) {
	all, err := status.ReadEvents(ctx, store)
	if err != nil {
		return nil, err
	}
	work, of, err := b.conf.Work()
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
func (b *Bus) prepare(ctx context.Context, store *cms.Coordinator) error {
	b.mu.Lock()
	known := b.store != nil
	b.mu.Unlock()
	if known || len(b.sinks) == 0 {
		return nil
	}
	was, err := session.DeliveriesOf(store).Read(ctx, b.conf.Node)
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
func (b *Bus) settle(ctx context.Context, s *sinkWorker, e status.Event, ok bool) {
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
func (b *Bus) save(ctx context.Context) {
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
	if err := session.DeliveriesOf(store).Note(ctx, b.conf.Node, d); err != nil {
		b.conf.Log.Debug("delivered events not recorded", "error", err)
		b.mu.Lock()
		b.saved = false
		b.mu.Unlock()
	}
}

// delivered returns the record, without the events that every sink has accepted. b.mu is held.
func (b *Bus) delivered() session.Delivered {
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
