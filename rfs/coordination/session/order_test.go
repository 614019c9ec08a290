package session_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// wire is the connection of one node to the store: requests and answers may be lost or late.
type wire struct {
	cms.Store
	mu        sync.Mutex
	silent    bool                                       // nothing is answered, and nothing arrives
	lost      int                                        // so many answers to writes are lost
	put       func(cms.Record) (arrives chan struct{})   // nil: at once
	delivered sync.WaitGroup                             // late writes
	clock     func(time.Time) (time.Time, time.Duration) // of this node's readings; nil: right
}

func (w *wire) waits(ctx context.Context) error {
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if !silent {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
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
	now, maxErr, err := w.Store.Now(ctx)
	if w.clock != nil {
		now, maxErr = w.clock(now)
	}
	return now, maxErr, err
}

func (w *wire) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := w.waits(ctx); err != nil {
		return cms.Record{}, err
	}
	return w.Store.Record(ctx, id)
}

// Put lets a write arrive when its channel is closed, also after its sender has given up.
func (w *wire) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := w.waits(ctx); err != nil {
		return cms.Revision{}, err
	}
	w.mu.Lock()
	put := w.put
	lost := w.lost > 0
	w.lost = max(w.lost-1, 0)
	w.mu.Unlock()
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
		bolt, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer bolt.Close()
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

// is checks what the fleet is to do and what became of an order.
func is(t *testing.T, c *cms.Coordinator, state session.FleetState, id string, want session.OrderState) {
	t.Helper()
	i, now, err := session.Of(c).Orders(t.Context())
	if err != nil || i.State != state {
		t.Fatalf("the fleet is to %s (%v), want %s", i.State, err, state)
	}
	if _, got, err := i.OrderState(id, now); err != nil || got != want {
		t.Errorf("order %s is %s (%v), want %s", id, got, err, want)
	}
}

func TestOrder(t *testing.T) {
	pause, resume := session.Order{Kind: session.OrderPause, Who: "ann"}, session.Order{Kind: session.OrderResume, Who: "bob"}
	unknown := func(t *testing.T, err error) string {
		t.Helper()
		var u *session.UnknownOrderError
		if !errors.As(err, &u) || !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "rfsctl orders "+u.Order.ID) {
			t.Fatalf("%v, want an unknown outcome", err)
		}
		return u.Order.ID
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, n1, n2 *cms.Coordinator, w1, w2 *wire)
	}{
		{"a pause whose write arrives after a newer resume is refused by its name", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives, done := make(chan struct{}), make(chan error)
			w1.put = once(arrives)
			go func() { _, _, err := session.Of(n1).Order(t.Context(), pause); done <- err }()
			time.Sleep(6 * time.Second)
			newer := give(t, n2, resume)
			close(arrives)
			var by *session.SupersededError
			if err := <-done; !errors.As(err, &by) || by.By.ID != newer.ID || !strings.Contains(err.Error(), newer.ID) {
				t.Errorf("the pause: %v", err)
			}
			is(t, n1, session.Run, newer.ID, session.OrderInForce)
		}},
		{"a pause that its sender gave up never beats a newer resume", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			id := unknown(t, err)
			is(t, n2, session.Run, id, session.OrderUnknown)
			newer := give(t, n2, resume)
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Run, newer.ID, session.OrderInForce)
			time.Sleep(session.OrderValidity)
			is(t, n2, session.Run, id, session.OrderExpired)
		}},
		{"a resume beats an older pause that is stored while it is written", func(t *testing.T, n1, n2 *cms.Coordinator, w1, w2 *wire) {
			late, later, done := make(chan struct{}), make(chan struct{}), make(chan error)
			w1.put, w2.put = once(late), once(later)
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			id := unknown(t, err)
			go func() { _, _, err := session.Of(n2).Order(t.Context(), resume); done <- err }()
			time.Sleep(time.Second)
			close(late) // the older one is stored first
			w1.delivered.Wait()
			is(t, n1, session.Pause, id, session.OrderInForce)
			close(later)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			w2.delivered.Wait()
			is(t, n1, session.Run, id, session.OrderReplaced)
		}},
		{"a write that arrives after its end has no effect", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			id := unknown(t, err)
			time.Sleep(session.OrderValidity)
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Run, id, session.OrderExpired)
		}},
		{"a write that arrives before its end is in force, though its sender gave up", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives := make(chan struct{})
			w1.put = once(arrives)
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			id := unknown(t, err)
			close(arrives)
			w1.delivered.Wait()
			is(t, n2, session.Pause, id, session.OrderInForce)
			time.Sleep(time.Hour)
			is(t, n2, session.Pause, id, session.OrderInForce)
		}},
		{"a store that is silent before the first write: refused, and nothing comes later", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.silent = true
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			var u *session.UnknownOrderError
			if errors.As(err, &u) || !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "will not come into force") {
				t.Errorf("%v", err)
			}
			w1.set(func() { w1.silent = false })
			if i, err := session.Of(n2).Intent(t.Context()); err != nil || i.State != session.Run || len(i.Orders) != 0 {
				t.Errorf("%+v, %v", i, err)
			}
		}},
		{"a store that falls silent after the effect: unknown, later in force", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.lost = 1
			w1.put = func(cms.Record) chan struct{} { w1.set(func() { w1.silent = true }); return nil }
			_, _, err := session.Of(n1).Order(waitsFor(t, 5*time.Second), pause)
			is(t, n2, session.Pause, unknown(t, err), session.OrderInForce)
		}},
		{"an answer that is lost is read back", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			w1.lost = 1
			o := give(t, n1, pause)
			is(t, n2, session.Pause, o.ID, session.OrderInForce)
			if i, err := session.Of(n2).Intent(t.Context()); err != nil || len(i.Orders) != 1 {
				t.Errorf("%+v, %v", i.Orders, err)
			}
		}},
		{"of two issuers immediately whose clock readings do not order them the first that is stored stays", func(t *testing.T, n1, n2 *cms.Coordinator, w1, w2 *wire) {
			arrives, done := make(chan struct{}), make(chan error)
			w1.put = once(arrives)
			w1.clock = func(now time.Time) (time.Time, time.Duration) {
				return now.Add(-300 * time.Millisecond), 500 * time.Millisecond
			}
			go func() { _, _, err := session.Of(n1).Order(t.Context(), resume); done <- err }()
			synctest.Wait()
			first := give(t, n2, pause)
			close(arrives)
			var by *session.SupersededError
			if err := <-done; !errors.As(err, &by) || by.By.ID != first.ID {
				t.Errorf("%v", err)
			}
			is(t, n2, session.Pause, first.ID, session.OrderInForce)
		}},
		{"an order after one that is in force wins, whatever the clock readings are", func(t *testing.T, n1, n2 *cms.Coordinator, _, w2 *wire) {
			first := give(t, n1, pause)
			w2.clock = func(now time.Time) (time.Time, time.Duration) { return now.Add(-time.Second), time.Second }
			second := give(t, n2, resume)
			is(t, n1, session.Run, second.ID, session.OrderInForce)
			is(t, n1, session.Run, first.ID, session.OrderReplaced)
			before, _ := session.Of(n1).Intent(t.Context())
			if !before.Orders[0].Issued.After(second.Issued) || before.When.Before(first.Issued) || second.Sequence <= first.Sequence {
				t.Errorf("first %+v, second %+v, record of %v", first, second, before.When)
			}
		}},
		{"an order about something else that comes between is kept, and so is this one", func(t *testing.T, n1, n2 *cms.Coordinator, w1, _ *wire) {
			arrives, done := make(chan struct{}), make(chan error)
			w1.put = once(arrives)
			go func() { _, _, err := session.Of(n1).Order(t.Context(), pause); done <- err }()
			time.Sleep(3 * time.Second)
			other := give(t, n2, session.Order{Kind: session.OrderScale, Workers: workers(3)})
			close(arrives)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			is(t, n2, session.Pause, other.ID, session.OrderInForce)
			if i, err := session.Of(n2).Intent(t.Context()); err != nil || *i.Workers != 3 {
				t.Errorf("%+v, %v", i, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { twoNodes(t, c.test) })
	}
}

func TestOrderState(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(seq int64, kind session.OrderKind, nodes ...string) session.Order {
		return session.Order{ID: "x-" + strings.Repeat(string(rune('a'+seq)), 6), Sequence: seq, Kind: kind, Nodes: nodes}
	}
	i := session.Intent{Forgotten: now.Add(-time.Hour), Orders: []session.Order{
		at(1, session.OrderPause), at(2, session.OrderDrain, "a", "b"), at(3, session.OrderScale), at(4, session.OrderResume, "a"), at(5, session.OrderResume),
	}}
	ending := func(d time.Duration) string { return strings.ToLower(timeID(now.Add(d))) }
	for _, c := range []struct {
		name, id string
		want     session.OrderState
	}{
		{"a pause before a resume", i.Orders[0].ID, session.OrderReplaced},
		{"a drain of two nodes, one of which was resumed", i.Orders[1].ID, session.OrderInForce},
		{"a number", i.Orders[2].ID, session.OrderInForce},
		{"the last", i.Orders[4].ID, session.OrderInForce},
		{"not stored, with time left", ending(time.Second), session.OrderUnknown},
		{"not stored, its end a moment ago by clocks that differ", ending(-time.Second), session.OrderUnknown},
		{"not stored, its end over", ending(-5 * time.Second), session.OrderExpired},
		{"from before what is kept", ending(-2 * time.Hour), session.OrderForgotten},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got, err := i.OrderState(c.id, now); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
	for _, id := range []string{"", "pause", "-abcdef", "zzzzzzzzzzzz-abcdef", "t5xw8k-", "t5xw8k-abcdefg", strings.Repeat("t", 10_000)} {
		if _, _, err := i.OrderState(id, now); !errors.Is(err, fault.ErrConfig) || len(err.Error()) > 300 {
			t.Errorf("id %.20q: %v", id, err)
		}
	}
}

// timeID is an id as orders have it, with the end that a test wants.
func timeID(ends time.Time) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var s []byte
	for n := ends.Unix(); n > 0; n /= 36 {
		s = append(s, digits[n%36])
	}
	slices.Reverse(s)
	return string(s) + "-abcdef"
}

func TestFewOrdersAreKeptAndThoseInForceForTheFleetAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := intentCoordinator(t)
		pause := give(t, c, session.Order{Kind: session.OrderPause, Who: strings.Repeat("ä", 1000)})
		number := give(t, c, session.Order{Kind: session.OrderScale, Workers: workers(2)})
		if len(pause.Who) > 256 {
			t.Errorf("an issuer of %d bytes", len(pause.Who))
		}
		var ids []string
		for range 40 {
			ids = append(ids, give(t, c, session.Order{Kind: session.OrderDrain, Nodes: []string{strings.Repeat("n", 200)}}).ID)
			time.Sleep(time.Second)
		}
		i, now, err := session.Of(c).Orders(t.Context())
		if err != nil || len(i.Orders) > 34 || i.Forgotten.IsZero() {
			t.Fatalf("%d orders, forgotten %v, %v", len(i.Orders), i.Forgotten, err)
		}
		for id, want := range map[string]session.OrderState{pause.ID: session.OrderInForce, number.ID: session.OrderInForce, ids[0]: session.OrderForgotten, ids[39]: session.OrderInForce} {
			time.Sleep(time.Minute)
			if _, got, err := i.OrderState(id, now.Add(time.Minute)); err != nil || got != want {
				t.Errorf("%s: %s, %v; want %s", id, got, err, want)
			}
		}
		for range 3 { // each as big as an order may be
			give(t, c, session.Order{Kind: session.OrderDrain, Nodes: manyNodes(280, strings.Repeat("m", 180))})
		}
		r, err := c.Store().Record(t.Context(), "intent:fleet")
		if err != nil || len(r.Body) > 256<<10 {
			t.Errorf("the record has %d bytes, %v", len(r.Body), err)
		}
	})
}

// Where the store does not look at the end itself, a node that read the record after it knows.
func TestALateOrderIsTakenOutByANodeThatReadTheRecordAfterItsEnd(t *testing.T) {
	end := time.Unix(1_800_000_000, 0)
	order := func(seq int64, kind session.OrderKind, ends time.Time, n *int) session.Order {
		return session.Order{ID: "t-" + strings.Repeat(string(rune('a'+seq)), 6), Sequence: seq, Kind: kind, Ends: ends, Workers: n}
	}
	before := session.Intent{State: session.Run, Who: "ann", Revision: cms.Revision{Seq: 10}}
	pause, number := order(11, session.OrderPause, end, nil), order(13, session.OrderScale, end.Add(time.Hour), workers(3))
	read := session.Intent{State: session.Pause, Workers: workers(3), Who: "bob", Sequence: 13, Revision: cms.Revision{Seq: 13}, Orders: []session.Order{pause, number}}
	for _, c := range []struct {
		name   string
		before session.Intent
		seen   time.Time
		ok     bool
		state  session.FleetState
	}{
		{"the record was not read since the end", before, end.Add(-time.Second), true, session.Pause},
		{"it was read within the difference of clocks", before, end.Add(time.Second), true, session.Pause},
		{"it was read after the end without the order", before, end.Add(time.Minute), false, session.Run},
		{"it was read after the end with the order", session.Intent{State: session.Pause, Revision: cms.Revision{Seq: 11}}, end.Add(time.Minute), true, session.Pause},
		{"no reading is known", before, time.Time{}, true, session.Pause},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, ok := read.Punctual(c.before, c.seen)
			if ok != c.ok || i.State != c.state || *i.Workers != 3 || i.Revision != read.Revision {
				t.Errorf("%v %+v", ok, i)
			}
			if !ok && (len(i.Orders) != 1 || i.Orders[0].ID != number.ID) {
				t.Errorf("orders %+v", i.Orders)
			}
		})
	}
}

func TestOnlyTheFirstOfTwoNodesTakesALateOrderOut(t *testing.T) {
	c := intentCoordinator(t)
	o := give(t, c, session.Order{Kind: session.OrderPause})
	i, err := session.Of(c).Intent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fixed, ok := i.Punctual(session.Intent{State: session.Run}, o.Ends.Add(time.Minute))
	if ok {
		t.Fatal("a late order is taken for a punctual one")
	}
	if _, err := session.Of(c).Withdraw(t.Context(), fixed); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Of(c).Withdraw(t.Context(), fixed); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	if i, err := session.Of(c).Intent(t.Context()); err != nil || i.State != session.Run || len(i.Orders) != 0 || !fixed.Revision.Precedes(i.Revision) {
		t.Errorf("%+v, %v", i, err)
	}
}
