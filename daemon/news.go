package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
)

// Sink takes events out of the node: a webhook or a command.
type Sink interface {
	Name() string
	Deliver(ctx context.Context, e status.Event) error
}

const (
	keptEvents  = 1000
	queuedNews  = 256 // events that wait for a sink; more are dropped
	eventsEvery = 10 * time.Second
)

// newsroom keeps the last events and passes them to the sinks. It never blocks who adds one.
type newsroom struct {
	node    string
	metrics *metrics.Registry
	log     *slog.Logger
	outlets []*outlet

	mu     sync.Mutex
	events []status.Event
	known  map[string]bool // ids of the store's events
	began  bool            // the store was read once: what it held before is no news
	due    time.Time
}

func newNewsroom(node string, sinks []Sink, m *metrics.Registry, log *slog.Logger) *newsroom {
	n := &newsroom{node: node, metrics: m, log: log, known: map[string]bool{}}
	for _, s := range sinks {
		n.outlets = append(n.outlets, &outlet{sink: s, queue: make(chan status.Event, queuedNews), metrics: m, log: log})
	}
	return n
}

// run delivers events until ctx ends; what waits then is tried once more, shortly.
func (n *newsroom) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, o := range n.outlets {
		wg.Go(func() { o.run(ctx) })
	}
	wg.Wait()
}

// add takes an event of this node.
func (n *newsroom) add(subject, code, detail string) {
	n.take(status.Event{Time: time.Now().UTC(), Node: n.node, Subject: subject, Code: code, Detail: detail}, true)
}

func (n *newsroom) take(e status.Event, deliver bool) {
	n.mu.Lock()
	n.events = append(n.events, e)
	if over := len(n.events) - keptEvents; over > 0 {
		n.events = slices.Delete(n.events, 0, over)
	}
	n.mu.Unlock()
	if !deliver {
		return
	}
	for _, o := range n.outlets {
		select {
		case o.queue <- e:
		default:
			n.metrics.Event(o.sink.Name(), "dropped")
		}
	}
}

// last gives the newest events, newest last.
func (n *newsroom) last(limit int) []status.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	sorted := slices.Clone(n.events)
	slices.SortStableFunc(sorted, func(a, b status.Event) int { return a.Time.Compare(b.Time) })
	if limit > 0 && len(sorted) > limit {
		sorted = sorted[len(sorted)-limit:]
	}
	return sorted
}

// read takes over the events of the store that are not known yet, now and then.
func (n *newsroom) read(ctx context.Context, store *cms.Coordinator, every time.Duration) {
	if store == nil || time.Now().Before(n.due) {
		return
	}
	n.due = time.Now().Add(every)
	rctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var fresh []status.Event
	for r, err := range store.Records(rctx, "event") {
		if err != nil {
			n.log.Debug("events of the store cannot be read", "error", err)
			return
		}
		if !n.known[r.ID] {
			n.known[r.ID] = true
			fresh = append(fresh, eventOf(r))
		}
	}
	slices.SortFunc(fresh, func(a, b status.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range fresh {
		n.take(e, n.began)
	}
	n.began = true
}

func eventOf(r cms.Record) status.Event {
	e := status.Event{ID: r.ID, Time: time.UnixMilli(r.CreatedAt).UTC(), Code: r.State}
	var b struct{ Subject, Code, Detail string }
	if json.Unmarshal(r.Body, &b) == nil {
		e.Subject, e.Detail = b.Subject, b.Detail
		if b.Code != "" {
			e.Code = b.Code
		}
	} else if parts := strings.Split(r.ID, ":"); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			e.Subject = string(raw)
		}
	}
	return e
}

// outlet is the queue of one sink.
type outlet struct {
	sink    Sink
	queue   chan status.Event
	metrics *metrics.Registry
	log     *slog.Logger
}

const (
	deliverTime  = 15 * time.Second
	deliverTries = 5
	lastDelivery = 5 * time.Second // for what waits when the daemon ends
)

func (o *outlet) run(ctx context.Context) {
	for {
		select {
		case e := <-o.queue:
			o.deliver(ctx, e)
		case <-ctx.Done():
			o.rest(ctx)
			return
		}
	}
}

// rest delivers what waits, once and shortly.
func (o *outlet) rest(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastDelivery)
	defer cancel()
	for {
		select {
		case e := <-o.queue:
			if last.Err() != nil || o.sink.Deliver(last, e) != nil {
				o.metrics.Event(o.sink.Name(), "failed")
				continue
			}
			o.metrics.Event(o.sink.Name(), "sent")
		default:
			return
		}
	}
}

// deliver tries an event several times, ever more slowly.
func (o *outlet) deliver(ctx context.Context, e status.Event) {
	pause := 500 * time.Millisecond
	var err error
	for try := range deliverTries {
		if try > 0 {
			if !sleep(ctx, pause) {
				break
			}
			pause *= 3
		}
		dctx, cancel := context.WithTimeout(ctx, deliverTime)
		err = o.sink.Deliver(dctx, e)
		cancel()
		if err == nil {
			o.metrics.Event(o.sink.Name(), "sent")
			return
		}
	}
	o.metrics.Event(o.sink.Name(), "failed")
	o.log.Warn("an event could not be delivered", "sink", o.sink.Name(), "code", e.Code, "subject", e.Subject, "error", err)
}
