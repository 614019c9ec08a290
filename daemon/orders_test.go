package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// heldStore delays writes in flight.
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

// stateOf returns the state of a node as it reports it.
func stateOf(t *testing.T, n *node) string { return n.Status(t.Context()).Node.State }

func TestOrderOfADaemon(t *testing.T) {
	pause, resume := session.Order{Kind: session.OrderPause, Who: "ann"}, session.Order{Kind: session.OrderResume, Who: "bob"}
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
			if err != nil || o.Intent.State != "pause" || o.Intent.By != "ann" || !slices.Equal(o.NotFollowing, []string{"n2", "n4"}) || time.Since(begin) > 3*time.Second {
				t.Errorf("%+v, %v after %v", o, err, time.Since(begin))
			}
			if i := n.Status(t.Context()).Migration.Intent; i.State != "pause" || i.By != "ann" || i.Revision != o.Intent.Revision || i.At == nil || !i.At.Equal(*o.Intent.At) {
				t.Errorf("the status has %+v", i)
			}
			for _, behind := range [][]string{{"n2", "n4"}, nil} {
				f.mu.Lock()
				f.behind = behind
				told := f.followed
				f.mu.Unlock()
				for _, x := range n.Status(t.Context()).Nodes {
					if want := map[bool]string{true: "running", false: "paused"}[slices.Contains(behind, x.Name)]; x.State != want {
						t.Errorf("%s is %s, want %s", x.Name, x.State, want)
					}
				}
				if told < 2 {
					t.Errorf("told the others %d times what it follows", told)
				}
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
		{"a reading from before the order does not hide it", func(t *testing.T, bolt *boltcms.Store) {
			mirror := &fakeMirror{}
			n := nodeOn(t, bolt, Config{Workers: -1, Mirror: mirror, ReadInterval: 3 * time.Second, Position: fleetOf(500)})
			before := *readingOf(t, n.store)
			give(t, n, pause)
			mirror.set(false, func() *progress.Reading {
				r := before
				r.At = time.Now()
				return &r
			})
			time.Sleep(time.Minute)
			if m := n.Status(t.Context()); m.Migration.Intent.State != "pause" || m.Migration.Intent.By != "ann" || n.mirrored.migration == nil {
				t.Errorf("the status has %+v", m.Migration.Intent)
			}
		}},
		{"a store that falls silent: unknown, and later in force", func(t *testing.T, bolt *boltcms.Store) {
			store := &heldStore{silentStore: &silentStore{Store: bolt}, arrives: make(chan struct{}), arrived: make(chan error, 1)}
			n, other := nodeOn(t, store, Config{Workers: 1}), nodeOn(t, bolt, Config{Workers: 1})
			store.hold.Store(true)
			begin := time.Now()
			o, err := n.Order(t.Context(), pause)
			if !errors.Is(err, session.ErrOrderUnknown) || !strings.Contains(err.Error(), "rfsctl status") || time.Since(begin) > 11*time.Second {
				t.Fatalf("%+v, %v after %v", o, err, time.Since(begin))
			}
			if got := stateOf(t, other); got != "running" {
				t.Errorf("before it is stored: %s", got)
			}
			close(store.arrives)
			if err := <-store.arrived; err != nil {
				t.Fatal(err)
			}
			until(t, "the other node follows", func() bool { return stateOf(t, other) == "paused" })
			store.silent.Store(false)
		}},
		{"a store that was silent before: refused", func(t *testing.T, bolt *boltcms.Store) {
			store := &silentStore{Store: bolt}
			n := nodeOn(t, store, Config{Workers: 1})
			store.silent.Store(true)
			o, err := n.Order(t.Context(), pause)
			if !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, session.ErrOrderUnknown) || !strings.Contains(err.Error(), "will not come into force") {
				t.Errorf("%+v, %v", o, err)
			}
			store.silent.Store(false)
			time.Sleep(time.Minute)
			if s := stateOf(t, n); s != "running" {
				t.Errorf("the node is %s", s)
			}
		}},
		{"a pause that arrives after a newer resume never stops the fleet", func(t *testing.T, bolt *boltcms.Store) {
			store := &heldStore{silentStore: &silentStore{Store: bolt}, arrives: make(chan struct{}), arrived: make(chan error, 1)}
			n, other := nodeOn(t, store, Config{Workers: 1}), nodeOn(t, bolt, Config{Workers: 1})
			store.hold.Store(true)
			if _, err := n.Order(t.Context(), pause); !errors.Is(err, session.ErrOrderUnknown) {
				t.Fatal(err)
			}
			give(t, other, resume)
			time.Sleep(15 * time.Second)
			close(store.arrives)
			if err := <-store.arrived; !errors.Is(err, cms.ErrConflict) {
				t.Errorf("the late write: %v", err)
			}
			store.hold.Store(false)
			store.silent.Store(false)
			time.Sleep(time.Minute)
			for _, x := range []*node{n, other} {
				if s := stateOf(t, x); s != "running" {
					t.Errorf("a node is %s", s)
				}
			}
		}},
		{"nodes that start again while the fleet is paused stay paused", func(t *testing.T, bolt *boltcms.Store) {
			n := nodeOn(t, bolt, Config{Workers: 1})
			give(t, n, pause)
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Hour)
			for range 2 {
				again := nodeOn(t, bolt, Config{Workers: 2})
				until(t, "it knows", func() bool { return again.Status(t.Context()).Node.State == "paused" })
				if len(again.starter.workers()) != 0 {
					t.Errorf("%d workers were started", len(again.starter.workers()))
				}
			}
		}},
		{"an order that another node gives later is followed, whatever its clock is", func(t *testing.T, bolt *boltcms.Store) {
			n, behind := nodeOn(t, bolt, Config{Workers: 1}), nodeOn(t, clockBehind{bolt}, Config{Workers: 1})
			give(t, n, pause)
			give(t, behind, resume)
			until(t, "both work", func() bool {
				return stateOf(t, n) == "running" && stateOf(t, behind) == "running"
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { c.test(t, boltstore.Open(t)) })
		})
	}
}

func give(t *testing.T, n *node, o session.Order) status.Ordered {
	t.Helper()
	got, err := n.Order(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// clockBehind is a store whose clock a node reads a second late.
type clockBehind struct{ cms.Store }

func (s clockBehind) Now(ctx context.Context) (time.Time, time.Duration, error) {
	now, maxErr, err := s.Store.Now(ctx)
	return now.Add(-time.Second), maxErr, err
}
