package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

type fakeSink struct {
	mu   sync.Mutex
	got  []status.Event
	fail int           // so many deliveries fail first
	hang chan struct{} // deliveries wait for it, or for their context
}

func (s *fakeSink) Name() string { return "fake" }

func (s *fakeSink) Deliver(ctx context.Context, e status.Event) error {
	if s.hang != nil {
		select {
		case <-s.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("not now")
	}
	s.got = append(s.got, e)
	return nil
}

func (s *fakeSink) events() []status.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]status.Event(nil), s.got...)
}

// busOf runs the events of a node, like its process, until the returned function is called.
func busOf(t *testing.T, store *cms.Coordinator, sinks ...Sink) (b *eventBus, end func()) {
	t.Helper()
	b = newEventBus("n1", sinks, func() (*cms.Coordinator, string, error) { return nil, "", nil }, metrics.NewRegistry(nil), discard())
	var wg sync.WaitGroup
	wg.Go(func() { b.run(t.Context()) })
	return b, func() {
		b.close(t.Context(), reached(store), stopFlushTimeout)
		wg.Wait()
	}
}

func reached(store *cms.Coordinator) *connection {
	c := &connection{}
	c.set(store)
	return c
}

func stored(t *testing.T, store *cms.Coordinator, subject string) {
	t.Helper()
	if _, err := store.Event(t.Context(), subject, "failed", "checksum"); err != nil {
		t.Fatal(err)
	}
}

// readEvents reads the store's events as the node does every ten seconds.
func readEvents(t *testing.T, b *eventBus, store *cms.Coordinator) {
	t.Helper()
	time.Sleep(eventsEvery) // of the bubble
	b.read(t.Context(), reached(store), eventsEvery)
	synctest.Wait()
}

func subjects(s *fakeSink) string {
	var all []string
	for _, e := range s.events() {
		all = append(all, e.Subject)
	}
	return strings.Join(all, " ")
}

func TestEventsOfTheStoreReachEverySinkOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, store *cms.Coordinator, sink *fakeSink)
		want string
	}{
		{"an event since the start is new at the first reading, an older one is not", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			stored(t, store, "old")
			time.Sleep(time.Minute)
			b, end := busOf(t, store, sink)
			stored(t, store, "first")
			readEvents(t, b, store)
			if all := b.last(0); len(all) != 2 || all[0].Subject != "old" || all[1].Detail != "checksum" || len(b.last(1)) != 1 {
				t.Errorf("shown: %+v", all)
			}
			end()
		}, "first"},
		{"a node that ends immediately delivers what happened", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			_, end := busOf(t, store, sink)
			stored(t, store, "last")
			end()
		}, "last"},
		{"a sink that failed for minutes gets it all the same, and only once", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			sink.fail = 3 * deliveries.Tries
			b, end := busOf(t, store, sink)
			stored(t, store, "a")
			for range 20 {
				readEvents(t, b, store)
			}
			end()
		}, "a"},
		{"a restarted node repeats nothing and forgets nothing", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			b, end := busOf(t, store, sink)
			stored(t, store, "a")
			readEvents(t, b, store)
			end()
			stored(t, store, "while-down")
			time.Sleep(time.Hour)
			b, end = busOf(t, store, sink)
			readEvents(t, b, store)
			readEvents(t, b, store)
			end()
		}, "a while-down"},
		{"what no sink took before the end is delivered after the restart", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			_, end := busOf(t, store, &fakeSink{fail: 1 << 20})
			stored(t, store, "a")
			end()
			time.Sleep(time.Hour)
			_, end = busOf(t, store, sink)
			end()
		}, "a"},
		{"a sink that is new at a restart gets only what is new", func(t *testing.T, store *cms.Coordinator, sink *fakeSink) {
			other := &fakeSink{}
			b, end := busOf(t, store, other)
			stored(t, store, "a")
			time.Sleep(2 * visibleWithin)
			stored(t, store, "b")
			readEvents(t, b, store)
			end()
			stored(t, store, "c")
			_, end = busOf(t, store, other, named{sink, "second"})
			end()
			if got := subjects(other); got != "a b c" {
				t.Errorf("the first sink got %q", got)
			}
		}, "b c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := newStore(t, 1), &fakeSink{}
				c.run(t, store, sink)
				if got := subjects(sink); got != c.want {
					t.Errorf("delivered %q, want %q", got, c.want)
				}
			})
		})
	}
}

// named is a sink with another name.
type named struct {
	Sink
	name string
}

func (n named) Name() string { return n.name }

func TestDeliveredEventsStaySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, 1), &fakeSink{}
		b, end := busOf(t, store, sink)
		for n := range 300 {
			stored(t, store, fmt.Sprint(n))
			readEvents(t, b, store)
		}
		end()
		d, err := session.DeliveriesOf(store).Read(t.Context(), "n1")
		if err != nil || len(sink.events()) != 300 || len(d.Sinks["fake"]) > 10 {
			t.Errorf("%d delivered, %d of them recorded, %v", len(sink.events()), len(d.Sinks["fake"]), err)
		}
	})
}

func TestASinkThatHangsDelaysNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &fakeSink{hang: make(chan struct{})}
		b, end := busOf(t, nil, sink)
		begin := time.Now()
		for range 3 * sinkQueueSize {
			b.add("x", nil, "y", "z")
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("adding took %v", took)
		}
		go func() { time.Sleep(time.Second); close(sink.hang) }()
		end()
		rec := httptest.NewRecorder()
		b.metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if text := rec.Body.String(); !strings.Contains(text, `rfsd_events_sent_total{sink="fake",result="dropped"}`) || !strings.Contains(text, `result="sent"`) {
			t.Errorf("dropped and sent events are not counted:\n%s", text)
		}
	})
}

func TestASinkThatNeverAnswersDelaysTheEndByItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := busOf(t, nil, &fakeSink{hang: make(chan struct{})})
		b.add("x", nil, "y", "z")
		synctest.Wait()
		begin := time.Now()
		end()
		if took := time.Since(begin); took != stopFlushTimeout {
			t.Errorf("the end took %v, not %v", took, stopFlushTimeout)
		}
	})
}

func TestTheLogRingKeepsTheLastLinesAsJSON(t *testing.T) {
	r := NewLogRing(3)
	if _, err := r.Write([]byte("{\"n\":1}\n{\"n\":2}\n\n{\"n\":3}\n")); err != nil {
		t.Fatal(err)
	}
	r.Add([]byte("panic: \"x\""))
	r.Add([]byte(strings.Repeat("y", 2*maxLogLine)))
	got := r.Last(0)
	if len(got) != 3 || string(got[0]) != `{"n":3}` || !strings.Contains(string(got[1]), `panic: \"x\"`) || len(got[2]) > maxLogLine+200 {
		t.Errorf("%s", got)
	}
	for _, line := range got {
		if !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
	if len(r.Last(1)) != 1 {
		t.Error("the limit is not kept")
	}
}

// TestEventsNameIndexAndShard: an event about a lease names index and shard as text, and has the id that commands accept.
func TestEventsNameIndexAndShard(t *testing.T) {
	item := cms.ItemID{Index: "logs", Shard: 2, Cursor: 70}.String()
	for _, c := range []struct {
		name          string
		happens       func(t *testing.T, b *eventBus, store *cms.Coordinator)
		subject, item string
	}{
		{"a worker that held an item", func(_ *testing.T, b *eventBus, _ *cms.Coordinator) {
			b.add("worker", &Lease{Item: item}, "worker_killed", "x")
		}, "index logs shard 2 from document number 70", item},
		{"a worker that held a window", func(_ *testing.T, b *eventBus, _ *cms.Coordinator) {
			b.add("worker", &Lease{Item: "12", Index: "a/0-0.ndjson", Shard: 1}, "worker_killed", "x")
		}, "file a/0-0.ndjson window 12", "12"},
		{"a worker between two leases", func(_ *testing.T, b *eventBus, _ *cms.Coordinator) {
			b.add("worker", &Lease{}, "worker_killed", "x")
		}, "worker", ""},
		{"a worker without a lease", func(_ *testing.T, b *eventBus, _ *cms.Coordinator) { b.add("worker", nil, "worker_failed", "x") }, "worker", ""},
		{"an event of the store", func(t *testing.T, _ *eventBus, store *cms.Coordinator) { stored(t, store, item) }, "index logs shard 2 from document number 70", item},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := newStore(t, 1), &fakeSink{}
				b, end := busOf(t, store, sink)
				c.happens(t, b, store)
				readEvents(t, b, store)
				end()
				if got := sink.events(); len(got) != 1 || got[0].Subject != c.subject || got[0].Item != c.item {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}
