package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// heldStore keeps writes on their way, and does not look at their ends: a store that runs no scripts.
type heldStore struct {
	*silentStore
	hold    atomic.Bool
	arrives chan struct{}
	arrived chan error
}

func (s *heldStore) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if !s.hold.Load() {
		return s.Store.Put(ctx, r)
	}
	s.silent.Store(true)
	r.Before = 0
	go func() {
		<-s.arrives
		_, err := s.Store.Put(context.WithoutCancel(ctx), r)
		s.arrived <- err
	}()
	<-ctx.Done()
	return cms.Revision{}, ctx.Err()
}

// nodeOn starts a node on a store that other nodes share.
func nodeOn(t *testing.T, store cms.Store, conf Config) *node {
	t.Helper()
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	conf.Open = func(context.Context) (*cms.Coordinator, error) { return c, nil }
	n := startNode(t, conf, &fakeStarter{stopped: handsOff})
	n.store = c
	until(t, "the store was read", func() bool { return n.Ready() == nil })
	return n
}

func openBolt(t *testing.T) *boltcms.Store {
	t.Helper()
	bolt, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bolt.Close() })
	return bolt
}

// state returns what became of an order as a node reads it.
func orderState(t *testing.T, n *node, id string) string {
	t.Helper()
	all, err := n.Orders(t.Context(), id)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].State
}

func TestOrderOfADaemon(t *testing.T) {
	pause, resume := status.Order{Kind: "pause", By: "ann"}, status.Order{Kind: "resume", By: "bob"}
	for _, c := range []struct {
		name string
		test func(t *testing.T, bolt *boltcms.Store)
	}{
		{"nodes that do not follow yet are named", func(t *testing.T, bolt *boltcms.Store) {
			f := &neighbours{count: 4, names: []string{"n1", "n2", "n3", "n4"}, behind: []string{"n4", "n2"}}
			n := nodeOn(t, bolt, Config{Workers: 1, Fleet: f, Peers: f})
			give(t, n, resume) // or else they have followed nothing yet
			begin := time.Now()
			o, err := n.Order(t.Context(), pause)
			if err != nil || o.State != status.OrderInForce || !slices.Equal(o.NotFollowing, []string{"n2", "n4"}) || time.Since(begin) > 3*time.Second {
				t.Errorf("%+v, %v after %v", o, err, time.Since(begin))
			}
			all, err := n.Orders(t.Context(), "")
			if err != nil || len(all) != 2 || all[0].ID != o.ID || !slices.Equal(all[0].NotFollowing, o.NotFollowing) || all[1].State != "replaced" || all[1].NotFollowing != nil {
				t.Errorf("%+v, %v", all, err)
			}
			for _, x := range n.Status(t.Context()).Nodes {
				if want := map[bool]string{true: "paused", false: "running"}[x.Name == "n1" || x.Name == "n3"]; x.State != want {
					t.Errorf("%s is %s, want %s", x.Name, x.State, want)
				}
			}
			f.mu.Lock()
			f.behind = nil
			told := f.followed
			f.mu.Unlock()
			if all, err := n.Orders(t.Context(), o.ID); err != nil || all[0].NotFollowing != nil || told < 2 {
				t.Errorf("%+v, %v; told the others %d times what it follows", all, err, told)
			}
		}},
		{"the answer does not wait where all follow", func(t *testing.T, bolt *boltcms.Store) {
			f := &neighbours{count: 2, names: []string{"n1", "n2"}}
			n := nodeOn(t, bolt, Config{Workers: 1, Fleet: f, Peers: f})
			begin := time.Now()
			if o := give(t, n, pause); o.NotFollowing != nil || time.Since(begin) > 0 {
				t.Errorf("%+v after %v", o, time.Since(begin))
			}
		}},
		{"a store that falls silent: unknown, and later what it is", func(t *testing.T, bolt *boltcms.Store) {
			store := &heldStore{silentStore: &silentStore{Store: bolt}, arrives: make(chan struct{}), arrived: make(chan error, 1)}
			n, other := nodeOn(t, store, Config{Workers: 1}), nodeOn(t, bolt, Config{Workers: 1})
			store.hold.Store(true)
			begin := time.Now()
			o, err := n.Order(t.Context(), pause)
			if err == nil || o.State != status.OrderUnknown || !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "rfsctl orders "+o.ID) || time.Since(begin) > 11*time.Second {
				t.Fatalf("%+v, %v after %v", o, err, time.Since(begin))
			}
			if got := orderState(t, other, o.ID); got != "unknown" {
				t.Errorf("before it is stored: %s", got)
			}
			close(store.arrives)
			if err := <-store.arrived; err != nil {
				t.Fatal(err)
			}
			if got := orderState(t, other, o.ID); got != status.OrderInForce {
				t.Errorf("after it was stored: %s", got)
			}
			until(t, "the other node follows", func() bool { return other.Status(t.Context()).Node.State == "paused" })
			if _, err := n.Orders(t.Context(), o.ID); !errors.Is(err, fault.ErrUnavailable) {
				t.Errorf("a silent store: %v", err)
			}
			store.silent.Store(false)
		}},
		{"a store that was silent before: refused", func(t *testing.T, bolt *boltcms.Store) {
			store := &silentStore{Store: bolt}
			n := nodeOn(t, store, Config{Workers: 1})
			store.silent.Store(true)
			o, err := n.Order(t.Context(), pause)
			if !errors.Is(err, fault.ErrUnavailable) || o.State != status.OrderRefused || !strings.Contains(err.Error(), "will not come into force") {
				t.Errorf("%+v, %v", o, err)
			}
			store.silent.Store(false)
			time.Sleep(time.Minute)
			if s := n.Status(t.Context()).Node.State; s != "running" {
				t.Errorf("the node is %s", s)
			}
		}},
		{"a pause that arrives after a newer resume never stops the fleet", func(t *testing.T, bolt *boltcms.Store) {
			store := &heldStore{silentStore: &silentStore{Store: bolt}, arrives: make(chan struct{}), arrived: make(chan error, 1)}
			n, other := nodeOn(t, store, Config{Workers: 1}), nodeOn(t, bolt, Config{Workers: 1})
			store.hold.Store(true)
			o, err := n.Order(t.Context(), pause)
			if o.State != status.OrderUnknown {
				t.Fatalf("%+v, %v", o, err)
			}
			newer := give(t, other, resume)
			time.Sleep(15 * time.Second)
			close(store.arrives)
			if err := <-store.arrived; !errors.Is(err, cms.ErrConflict) {
				t.Errorf("the late write: %v", err)
			}
			store.hold.Store(false)
			store.silent.Store(false)
			time.Sleep(time.Minute)
			for _, x := range []*node{n, other} {
				if s := x.Status(t.Context()).Node.State; s != "running" || orderState(t, x, newer.ID) != status.OrderInForce || orderState(t, x, o.ID) != "expired" {
					t.Errorf("a node is %s", s)
				}
			}
		}},
		{"an order that is stored after its end is refused by the nodes and withdrawn", func(t *testing.T, bolt *boltcms.Store) {
			store := &heldStore{silentStore: &silentStore{Store: bolt}, arrives: make(chan struct{}), arrived: make(chan error, 1)}
			n, other := nodeOn(t, store, Config{Workers: 1}), nodeOn(t, bolt, Config{Workers: 1})
			store.hold.Store(true)
			o, _ := n.Order(t.Context(), pause)
			time.Sleep(session.OrderValidity)
			close(store.arrives)
			if err := <-store.arrived; err != nil {
				t.Fatal(err)
			}
			store.hold.Store(false)
			store.silent.Store(false)
			until(t, "it is withdrawn", func() bool {
				i, err := session.Of(other.store).Intent(t.Context())
				return err == nil && i.State == session.Run
			})
			time.Sleep(time.Minute)
			if s := other.Status(t.Context()).Node.State; s != "running" || orderState(t, other, o.ID) != "expired" {
				t.Errorf("the node is %s, the order %s", s, orderState(t, other, o.ID))
			}
			for _, e := range other.events.last(0) {
				if e.Code == "intent" {
					t.Errorf("it was followed for a while: %+v", e)
				}
			}
		}},
		{"nodes that start again while the fleet is paused stay paused", func(t *testing.T, bolt *boltcms.Store) {
			n := nodeOn(t, bolt, Config{Workers: 1})
			o := give(t, n, pause)
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Hour)
			for range 2 {
				again := nodeOn(t, bolt, Config{Workers: 2})
				until(t, "it knows", func() bool { return again.Status(t.Context()).Node.State == "paused" })
				if got := orderState(t, again, o.ID); got != status.OrderInForce || len(again.starter.workers()) != 0 {
					t.Errorf("the order is %s, and %d workers were started", got, len(again.starter.workers()))
				}
			}
		}},
		{"an order that another node gives later is followed, whatever its clock is", func(t *testing.T, bolt *boltcms.Store) {
			n, behind := nodeOn(t, bolt, Config{Workers: 1}), nodeOn(t, clockBehind{bolt}, Config{Workers: 1})
			give(t, n, pause)
			give(t, behind, resume)
			until(t, "both work", func() bool {
				return n.Status(t.Context()).Node.State == "running" && behind.Status(t.Context()).Node.State == "running"
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { c.test(t, openBolt(t)) })
		})
	}
}

func give(t *testing.T, n *node, o status.Order) status.Order {
	t.Helper()
	got, err := n.Order(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// clockBehind is a store of which a node reads the clock a second late.
type clockBehind struct{ cms.Store }

func (s clockBehind) Now(ctx context.Context) (time.Time, time.Duration, error) {
	now, maxErr, err := s.Store.Now(ctx)
	return now.Add(-time.Second), maxErr, err
}
