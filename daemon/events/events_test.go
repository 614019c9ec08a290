package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/rfsd/rfsd/testing/boltstore"
)

const (
	every    = 10 * time.Second // between two reads
	endLimit = 5 * time.Second
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
func busOf(t *testing.T, store *cms.Coordinator, sinks ...Sink) (b *Bus, end func()) {
	t.Helper()
	b = New(Config{
		Node: "n1", Sinks: sinks, Work: func() (*cms.Coordinator, string, error) { return nil, "", nil }, Metrics: metrics.NewRegistry(nil), Log: slog.New(slog.DiscardHandler),
	})
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(t.Context()) })
	return b, func() {
		b.Close(t.Context(), store, endLimit)
		wg.Wait()
	}
}

func newStore(t *testing.T) *cms.Coordinator {
	t.Helper()
	bolt := boltstore.Open(t)
	return cms.New(cms.Config{Store: bolt, Creator: "test"})
}

func stored(t *testing.T, store *cms.Coordinator, subject string) {
	t.Helper()
	if _, err := store.Event(t.Context(), subject, "failed", "checksum"); err != nil {
		t.Fatal(err)
	}
}

// readEvents reads the store's events as the node does every ten seconds.
func readEvents(t *testing.T, b *Bus, store *cms.Coordinator) {
	t.Helper()
	time.Sleep(every) // of the bubble
	b.Read(t.Context(), store, every)
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
			if all := b.Last(0); len(all) != 2 || all[0].Subject != "old" || all[1].Detail != "checksum" || len(b.Last(1)) != 1 {
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
				store, sink := newStore(t), &fakeSink{}
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
		store, sink := newStore(t), &fakeSink{}
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
			b.Add("x", "", "y", "z")
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("adding took %v", took)
		}
		go func() { time.Sleep(time.Second); close(sink.hang) }()
		end()
		rec := httptest.NewRecorder()
		b.conf.Metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if text := rec.Body.String(); !strings.Contains(text, `rfsd_events_sent_total{sink="fake",result="dropped"}`) || !strings.Contains(text, `result="sent"`) {
			t.Errorf("dropped and sent events are not counted:\n%s", text)
		}
	})
}

func TestASinkThatNeverAnswersDelaysTheEndByItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := busOf(t, nil, &fakeSink{hang: make(chan struct{})})
		b.Add("x", "", "y", "z")
		synctest.Wait()
		begin := time.Now()
		end()
		if took := time.Since(begin); took != endLimit {
			t.Errorf("the end took %v, not %v", took, endLimit)
		}
	})
}

// TestAnEventOfTheStoreNamesIndexAndShard as text, and has the id that commands accept.
func TestAnEventOfTheStoreNamesIndexAndShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		item := cms.ItemID{Index: "logs", Shard: 2, Cursor: 70}.String()
		store, sink := newStore(t), &fakeSink{}
		b, end := busOf(t, store, sink)
		stored(t, store, item)
		readEvents(t, b, store)
		end()
		if got := sink.events(); len(got) != 1 || got[0].Subject != "index logs shard 2 from document number 70" || got[0].Item != item {
			t.Errorf("%+v", got)
		}
	})
}
