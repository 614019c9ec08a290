package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// wire is the connection of one node to the store: requests and answers may be lost or late.
type wire struct {
	cms.Store
	mu        sync.Mutex
	silent    bool                                     // nothing is answered
	lost      int                                      // so many answers to writes are lost
	dropped   int                                      // so many writes never arrive
	put       func(cms.Record) (arrives chan struct{}) // nil: at once
	delivered sync.WaitGroup                           // late writes
}

// waits blocks while the store does not answer.
func (w *wire) waits(ctx context.Context) error {
	for {
		w.mu.Lock()
		silent := w.silent
		w.mu.Unlock()
		if !silent {
			return nil
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *wire) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *wire) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if err := w.waits(ctx); err != nil {
		return time.Time{}, 0, err
	}
	return w.Store.Now(ctx)
}

func (w *wire) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := w.waits(ctx); err != nil {
		return cms.Record{}, err
	}
	return w.Store.Record(ctx, id)
}

// Put applies a write when its channel is closed, even after its sender has given up.
func (w *wire) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := w.waits(ctx); err != nil {
		return cms.Revision{}, err
	}
	w.mu.Lock()
	put := w.put
	lost := w.lost > 0
	w.lost = max(w.lost-1, 0)
	dropped := w.dropped > 0
	w.dropped = max(w.dropped-1, 0)
	w.mu.Unlock()
	if dropped {
		return cms.Revision{}, fault.ErrUnavailable
	}
	if put != nil {
		if arrives := put(r); arrives != nil {
			type answer struct {
				rev cms.Revision
				err error
			}
			answers := make(chan answer, 1)
			w.delivered.Go(func() {
				<-arrives
				rev, err := w.Store.Put(context.WithoutCancel(ctx), r)
				answers <- answer{rev, err}
			})
			select {
			case a := <-answers:
				return a.rev, a.err
			case <-ctx.Done():
				return cms.Revision{}, ctx.Err()
			}
		}
	}
	rev, err := w.Store.Put(ctx, r)
	if lost {
		return cms.Revision{}, fault.ErrUnavailable
	}
	return rev, err
}

// once delays the first write only.
func once(arrives chan struct{}) func(cms.Record) chan struct{} {
	first := true
	return func(cms.Record) chan struct{} {
		if !first {
			return nil
		}
		first = false
		return arrives
	}
}

// twoNodes runs a test with two nodes on one store, in virtual time.
func twoNodes(t *testing.T, test func(t *testing.T, n1, n2 *cms.Coordinator, w1, w2 *wire)) {
	synctest.Test(t, func(t *testing.T) {
		bolt := boltstore.Open(t)
		w1, w2 := &wire{Store: bolt}, &wire{Store: bolt}
		defer w1.delivered.Wait()
		test(t, coordinatorOn(t, w1), coordinatorOn(t, w2), w1, w2)
	})
}

func waitsFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// is checks the state of the fleet, and the issuer of the last order.
func is(t *testing.T, c *cms.Coordinator, state session.FleetState, who string) {
	t.Helper()
	if i, err := session.OrdersOf(c).Intent(t.Context()); err != nil || i.State != state || i.Who != who {
		t.Fatalf("the fleet is to %s by %q (%v), want %s by %q", i.State, i.Who, err, state, who)
	}
}

func TestRecords_Order(t *testing.T) {
	pause, resume := session.Order{Kind: session.OrderPause, Who: "ann"}, session.Order{Kind: session.OrderResume, Who: "bob"}
	unknown := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, session.ErrOrderUnknown) || !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("%v, want an unknown outcome", err)
		}
	}
	refused := func(t *testing.T, err error, by string) {
		t.Helper()
		if !errors.Is(err, fault.ErrRejected) || !strings.Contains(err.Error(), "by "+by) {
			t.Errorf("%v, want an order that %s was quicker than", err, by)
		}
	}
	ordered := func(ctx context.Context, c *cms.Coordinator, o session.Order) error {
		_, err := session.OrdersOf(c).Issue(ctx, o)
		return err
	}
	// slow gives an order whose first write arrives later.
	slow := func(t *testing.T, c *cms.Coordinator, w *wire, o session.Order) (arrive func() error) {
		arrives, done := make(chan struct{}), make(chan error)
		w.put = once(arrives)
		go func() { done <- ordered(t.Context(), c, o) }()
		time.Sleep(3 * time.Second)
		return func() error { close(arrives); return <-done }
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, n1, n2 *cms.Coordinator, w1, w2 *wire)
	}{
		{"a pause whose write arrives after a newer resume is refused", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrive := slow(t, n1, w1, pause)
			give(t, n2, resume)
			refused(t, arrive(), "bob")
			is(t, n1, session.Run, "bob")
		}},
		{"a pause that its sender gave up never beats a newer resume", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			unknown(t, ordered(waitsFor(t, 5*time.Second), n1, pause))
			give(t, n2, resume)
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Run, "bob")
		}},
		{"a pause that its sender gave up never beats the same pause and a resume", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			unknown(t, ordered(waitsFor(t, 5*time.Second), n1, pause))
			give(t, n1, pause)
			give(t, n2, resume)
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Run, "bob")
		}},
		{"a write that arrives is in force, though its sender gave up", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			unknown(t, ordered(waitsFor(t, 5*time.Second), n1, pause))
			is(t, n2, session.Run, "")
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Pause, "ann")
		}},
		{"a store that is silent before the first write: refused, and nothing comes later", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.silent = true
			err := ordered(waitsFor(t, 5*time.Second), n1, pause)
			if errors.Is(err, session.ErrOrderUnknown) || !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "will not come into force") {
				t.Errorf("%v", err)
			}
			w1.set(func() { w1.silent = false })
			is(t, n2, session.Run, "")
		}},
		{"a store that falls silent after the effect: unknown, and in force", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.lost = 1
			w1.put = func(cms.Record) chan struct{} { w1.set(func() { w1.silent = true }); return nil }
			unknown(t, ordered(waitsFor(t, 5*time.Second), n1, pause))
			is(t, n2, session.Pause, "ann")
		}},
		{"an answer that is lost is read back, and nothing is written twice", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			first := give(t, n2, resume)
			w1.lost = 1
			if i := give(t, n1, pause); i.Revision.Seq != first.Revision.Seq+1 {
				t.Errorf("%+v after %+v", i, first)
			}
			is(t, n2, session.Pause, "ann")
		}},
		{"a write that is lost is sent again, also of an order that changes nothing", func(t *testing.T, n1, _ *cms.Coordinator, w1, _ *wire) {
			w1.dropped = 1
			if i := give(t, n1, resume); i.Who != "bob" || i.Revision == (cms.Revision{}) {
				t.Errorf("%+v", i)
			}
		}},
		{"an answer that is lost and a newer resume: the pause is not written again", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.lost = 1
			w1.put = func(cms.Record) chan struct{} {
				w1.set(func() { w1.silent, w1.put = true, nil })
				time.AfterFunc(time.Second, func() { give(t, n2, resume); w1.set(func() { w1.silent = false }) })
				return nil
			}
			err := ordered(t.Context(), n1, pause)
			if err == nil {
				t.Error("the pause is said to be in force")
			}
			is(t, n2, session.Run, "bob")
		}},
		{"an answer that is lost and a newer number: the pause is in force, and so is the number", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.lost = 1
			w1.put = func(cms.Record) chan struct{} {
				w1.set(func() { w1.put = nil })
				time.AfterFunc(time.Millisecond, func() { give(t, n2, session.Order{Kind: session.OrderScale, Workers: workers(3), Who: "bob"}) })
				return nil
			}
			if i := give(t, n1, pause); i.State != session.Pause || i.Workers == nil {
				t.Errorf("%+v", i)
			}
		}},
		{"of two operators at once the first that is stored stays", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			give(t, n2, session.Order{Kind: session.OrderDrain, Who: "eve"})
			arrive := slow(t, n1, w1, resume)
			give(t, n2, pause)
			refused(t, arrive(), "ann")
			is(t, n2, session.Pause, "ann")
		}},
		{"two operators at once who want the same", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrive := slow(t, n1, w1, pause)
			give(t, n2, session.Order{Kind: session.OrderPause, Who: "bob"})
			if err := arrive(); err != nil {
				t.Error(err)
			}
			is(t, n2, session.Pause, "bob")
		}},
		{"an order about something else that comes between is kept, and so is this one", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrive := slow(t, n1, w1, pause)
			give(t, n2, session.Order{Kind: session.OrderScale, Workers: workers(3)})
			if err := arrive(); err != nil {
				t.Fatal(err)
			}
			if i, err := session.OrdersOf(n2).Intent(t.Context()); err != nil || i.State != session.Pause || *i.Workers != 3 {
				t.Errorf("%+v, %v", i, err)
			}
		}},
		{"a drain of a node that was resumed meanwhile is refused", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrive := slow(t, n1, w1, session.Order{Kind: session.OrderDrain, Nodes: []string{"a"}, Who: "ann"})
			give(t, n2, session.Order{Kind: session.OrderResume, Nodes: []string{"a"}, Who: "bob"})
			refused(t, arrive(), "bob")
		}},
		{"an order replaces a record that means nothing", func(t *testing.T, n1, n2 *cms.Coordinator, _, _ *wire) {
			if _, err := n2.Store().Put(t.Context(), cms.Record{ID: "intent:fleet", Kind: "intent", State: "STOP", Body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			give(t, n1, pause)
			is(t, n2, session.Pause, "ann")
		}},
	} {
		t.Run(c.name, func(t *testing.T) { twoNodes(t, c.test) })
	}
}
