package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// fakeMirror is the rest of a fleet. read produces the leader's reading, or nil.
type fakeMirror struct {
	mu        sync.Mutex
	leads     bool
	read      func() *progress.Reading
	last      time.Time
	far       bool // in a large fleet only those that were asked have it
	published []*progress.Reading
}

func (m *fakeMirror) Mirrors() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.leads }

func (m *fakeMirror) PublishReading(r *progress.Reading) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = append(m.published, r)
	return nil
}

func (m *fakeMirror) Published() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		return time.Time{}
	}
	return m.read().At
}

func (m *fakeMirror) Reading(_ context.Context, asked bool) (*progress.Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.far && !asked {
		return nil, nil
	}
	if m.read == nil {
		return nil, errors.New("no leader")
	}
	r := m.read()
	if !r.At.After(m.last) {
		return nil, nil
	}
	m.last = r.At
	return r, nil
}

func (m *fakeMirror) set(leads bool, read func() *progress.Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leads, m.read = leads, read
}

// countedStore counts the scans of a store, and fails while it is set to.
type countedStore struct {
	cms.Store
	scans  atomic.Int64
	silent atomic.Bool
}

func (s *countedStore) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if s.silent.Load() {
		return time.Time{}, 0, errors.New("no answer")
	}
	s.scans.Add(1) // each reading asks for the time once
	return s.Store.Now(ctx)
}

func fleetOf(nodes int) func() schedule.NodePosition {
	return func() schedule.NodePosition { return schedule.NodePosition{Nodes: nodes, Workers: nodes} }
}

// readingOf returns a correct reading of a store.
func readingOf(t *testing.T, store *cms.Coordinator) *progress.Reading {
	t.Helper()
	r, err := progress.ReadStore(t.Context(), store)
	if err != nil {
		t.Error(err)
	}
	return r
}

func TestANodeShowsTheLeadersReading(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		mirror := &fakeMirror{}
		n := startNode(t, Config{Workers: -1, Mirror: mirror, ReadInterval: 3 * time.Second, Position: fleetOf(500)}, &fakeStarter{})
		synctest.Wait()
		time.Sleep(time.Minute)
		mirror.set(false, func() *progress.Reading { return readingOf(t, n.store) })
		time.Sleep(7 * time.Second) // it has the leader's reading, and reads rarely from now on
		if _, err := n.store.AcquireNext(t.Context(), "w", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		r := n.Status(t.Context())
		if r.Migration == nil || r.Migration.Totals.Leased+r.Migration.Totals.Expired != 1 || r.Stale > 10 {
			t.Fatalf("%v s old: %+v", r.Stale, r.Migration)
		}
		if own := n.Migration(); own.Totals.Leased+own.Totals.Expired != 0 {
			t.Errorf("the own reading has %+v", own.Totals)
		}
		m, items, err := status.Read(t.Context(), n.store)
		if err != nil {
			t.Fatal(err)
		}
		m.Session, m.ReadAt = r.Migration.Session, r.Migration.ReadAt
		list, err := n.Items(t.Context(), status.ItemFilter{})
		if a, b := text(t, r.Migration), text(t, m); a != b || err != nil {
			t.Errorf("%s\n%s, %v", a, b, err)
		}
		want := status.NewItemList(m, items, status.ItemFilter{})
		want.ReadAt = list.ReadAt
		if a, b := text(t, list), text(t, want); a != b {
			t.Errorf("%s\n%s", a, b)
		}
		mirror.set(false, nil) // the leader is gone, and no other follows: the node reads for itself
		for age := 0; age < 4; age++ {
			time.Sleep(20 * time.Second)
			n.Status(t.Context())
			time.Sleep(time.Second)
		}
		if r := n.Status(t.Context()); r.Stale > 30 {
			t.Errorf("without a leader the status is %v s old", r.Stale)
		}
	})
}

// TestAReadingOfAnotherKindIsNotShown: nodes that import and nodes that migrate may be in one fleet by mistake.
func TestAReadingOfAnotherKindIsNotShown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		mirror := &fakeMirror{}
		n := startNode(t, Config{Workers: -1, Mirror: mirror, ReadInterval: 3 * time.Second, Position: fleetOf(500)}, &fakeStarter{})
		mirror.set(false, func() *progress.Reading { return &progress.Reading{At: time.Now(), Kind: importer.Kind} })
		for range 100 {
			time.Sleep(time.Second)
			if r := n.Status(t.Context()); r.Migration != nil && r.Migration.Totals.Items == 0 {
				t.Fatalf("%+v is shown", r.Migration)
			}
		}
	})
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTheLeaderReadsForTheFleet checks how often nodes read: the leader every few seconds, even of a large fleet, the others rarely.
func TestTheLeaderReadsForTheFleet(t *testing.T) {
	for _, far := range []bool{false, true} {
		t.Run(map[bool]string{false: "with a copy of the hints", true: "without"}[far], func(t *testing.T) { leaderReads(t, far) })
	}
}

func leaderReads(t *testing.T, far bool) {
	inVirtualTime(t, func(t *testing.T) {
		mirror := &fakeMirror{far: far}
		counted := &countedStore{}
		n := &node{store: newStore(t, 4)}
		counted.Store = n.store.Store()
		c := cms.New(cms.Config{Store: counted, Creator: "test", InitialLease: 2 * time.Second})
		n = startNode(t, Config{Workers: -1, Mirror: mirror, ReadInterval: 3 * time.Second, Position: fleetOf(500), Open: func(context.Context) (*cms.Coordinator, error) { return c, nil }, IntentInterval: time.Hour}, &fakeStarter{})
		truth := func() *progress.Reading { return readingOf(t, n.store) }
		mirror.set(false, truth)
		time.Sleep(time.Minute)
		before := counted.scans.Load()
		time.Sleep(10 * time.Minute)
		if reads := counted.scans.Load() - before; reads > 1 {
			t.Errorf("a node with the leader's readings read the store %d times in ten minutes", reads)
		}
		if far { // an operator asks after ten minutes
			if r := n.Status(t.Context()); r.Stale > 10 {
				t.Errorf("the status is %v s old", r.Stale)
			}
		}
		mirror.set(true, truth)
		time.Sleep(10 * time.Second)
		mirror.mu.Lock()
		published := len(mirror.published)
		mirror.mu.Unlock()
		if published < 3 {
			t.Errorf("the leader published %d readings in ten seconds", published)
		}
	})
}

// TestALyingMirrorChangesNoExitCode has a leader with false readings: the node ends by the contents of the store alone.
func TestALyingMirrorChangesNoExitCode(t *testing.T) {
	for _, c := range []struct {
		name     string
		complete bool // the store's truth; the leader shows the opposite
	}{{"complete, shown as open", true}, {"open, shown as complete", false}} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				mirror, starter := &fakeMirror{}, &fakeStarter{}
				starter.born = func(w *fakeWorker) { w.exit(ExitNoneLeft, Record{}) } // the worker says that nothing is left
				store := newStore(t, 2)
				open := readingOf(t, store)
				for shard := range 2 {
					if err := store.Cancel(t.Context(), cms.ItemID{Index: "logs", Shard: shard}, "ann"); err != nil {
						t.Fatal(err)
					}
				}
				putPhase(t, store)
				done := readingOf(t, store)
				if c.complete { // the last phase ends a while after the last item
					if err := store.Store().Delete(t.Context(), phaseOf(t, store)); err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(20*time.Second, func() { putPhase(t, store) })
				}
				real, lie := done, open
				if !c.complete {
					store = newStore(t, 2)
					real, lie = open, done
				}
				mirror.set(false, func() *progress.Reading { r := *lie; r.At = time.Now().Add(5 * time.Second); return &r })
				d := New(Config{
					Name: "n1", Log: discard(), Starter: starter, Workers: 1, EndWhenDone: true, Mirror: mirror, ReadInterval: 3 * time.Second,
					IntentInterval: time.Second, Open: func(context.Context) (*cms.Coordinator, error) { return store, nil },
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				if err := d.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if ended := ctx.Err() == nil; ended != c.complete {
					t.Errorf("it ended by itself: %v", ended)
				}
				want, _, _ := status.Sum(real)
				if m := d.Migration(); m.Complete != c.complete || m.Totals != want.Totals {
					t.Errorf("the exit code would be made of %+v", m.Totals)
				}
				if r := d.snapshot(); r.Migration.Complete == c.complete {
					t.Error("the leader's reading is not shown, so that nothing was tested")
				}
			})
		})
	}
}

func phaseOf(t *testing.T, store *cms.Coordinator) cms.Record {
	t.Helper()
	r, err := store.Store().Record(t.Context(), "phase:docs")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAReadingOfTheFutureIsNotShown has a leader whose readings would be shown permanently.
func TestAReadingOfTheFutureIsNotShown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		mirror := &fakeMirror{}
		n := startNode(t, Config{Workers: -1, Mirror: mirror, ReadInterval: 3 * time.Second, Position: fleetOf(3)}, &fakeStarter{})
		mirror.set(false, func() *progress.Reading { return &progress.Reading{At: time.Now().Add(time.Hour)} })
		time.Sleep(20 * time.Second)
		if r := n.Status(t.Context()); r.Migration.Totals.Items != 4 || r.Stale > 10 {
			t.Errorf("%v s old: %+v", r.Stale, r.Migration.Totals)
		}
	})
}

// putPhase completes the phase of the documents.
func putPhase(t *testing.T, store *cms.Coordinator) {
	t.Helper()
	if _, err := store.Store().Put(t.Context(), cms.Record{ID: "phase:docs", Kind: "phase", State: "COMPLETED"}); err != nil {
		t.Fatal(err)
	}
}

// TestDaemon_StoreIsReachedLate starts a node of a fleet whose store answers after minutes: until then the node only waits.
func TestDaemon_StoreIsReachedLate(t *testing.T) {
	for name, leads := range map[string]bool{"follower": false, "leader": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				answers := time.Now().Add(3 * time.Minute)
				store := newStore(t, 1)
				starter := &fakeStarter{stopped: handsOff}
				n := startNode(t, Config{Workers: 1, Send: Limit{Most: 1 << 20}, Mirror: &fakeMirror{leads: leads}, Open: func(context.Context) (*cms.Coordinator, error) {
					if time.Now().Before(answers) {
						return nil, fmt.Errorf("connection refused: %w", fault.ErrUnavailable)
					}
					return store, nil
				}}, starter)
				time.Sleep(time.Until(answers) - 10*time.Second)
				if r := n.Status(t.Context()); r.Node.State != "starting" || r.StoreError == "" {
					t.Errorf("%s, store error %q before the store has answered", r.Node.State, r.StoreError)
				}
				time.Sleep(2 * time.Minute)
				if r := n.Status(t.Context()); r.Node.State != "running" || len(starter.living()) != 1 {
					t.Errorf("%s with %d workers after the store has answered", r.Node.State, len(starter.living()))
				}
				must(t, n.stop())
			})
		})
	}
}
