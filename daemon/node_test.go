package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// silentStore does not answer while it is silent.
type silentStore struct {
	cms.Store
	silent atomic.Bool
}

func (s *silentStore) wait(ctx context.Context) error {
	if !s.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silentStore) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if err := s.wait(ctx); err != nil {
		return time.Time{}, 0, err
	}
	return s.Store.Now(ctx)
}

func (s *silentStore) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := s.wait(ctx); err != nil {
		return cms.Record{}, err
	}
	return s.Store.Record(ctx, id)
}

func (s *silentStore) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return func(yield func(cms.Item, error) bool) {
		if err := s.wait(ctx); err != nil {
			yield(cms.Item{}, err)
			return
		}
		s.Store.Scan(ctx)(yield)
	}
}

func TestStatusAnswersAtOnceWhileTheStoreIsSilent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		bolt := boltstore.Open(t)
		store := &silentStore{Store: bolt}
		c := cms.New(cms.Config{Store: store, Creator: "test"})
		n := startNode(t, Config{Workers: 1, Open: func(context.Context) (*cms.Coordinator, error) { return c, nil }}, &fakeStarter{stopped: handsOff})
		until(t, "the store was read", func() bool { return n.Ready() == nil })
		store.silent.Store(true)
		until(t, "the answer grows old", func() bool { return n.Status(t.Context()).Stale > 0.5 })
		begin := time.Now()
		r := n.Status(t.Context())
		_, ierr := n.Items(t.Context(), status.ItemFilter{})
		_, ferr := n.Failures(t.Context())
		_, aerr := n.Account(t.Context())
		_, eerr := n.Events(t.Context(), 10)
		n.Logs(t.Context(), 10)
		rec := httptest.NewRecorder()
		n.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if took := time.Since(begin); took > 0 {
			t.Errorf("the answers took %v", took)
		}
		if r.Migration == nil || errors.Join(ierr, ferr, aerr, eerr) != nil || !strings.Contains(rec.Body.String(), "rfsd_migration_age_seconds") {
			t.Errorf("%+v, %v", r, errors.Join(ierr, ferr, aerr, eerr))
		}
		if n.Healthy() != nil {
			t.Error("a silent store is taken for a sick process")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := orderOf(ctx, n.Daemon, "pause", nil); err == nil {
			t.Error("an intent that was not stored was taken for stored")
		}
		store.silent.Store(false)
	})
}

func TestANodeThatNeverReachedItsStoreSaysSo(t *testing.T) {
	n := runNode(t, Config{Open: func(context.Context) (*cms.Coordinator, error) { return nil, fault.ErrUnavailable }}, &fakeStarter{})
	until(t, "it has tried", func() bool { return n.Status(t.Context()).StoreError != "" })
	r := n.Status(t.Context())
	if r.Node.State != "starting" || r.Migration != nil || n.Ready() == nil || n.Healthy() != nil {
		t.Errorf("%+v, ready %v, healthy %v", r.Node, n.Ready(), n.Healthy())
	}
	if _, err := n.Items(t.Context(), status.ItemFilter{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Error(err)
	}
	if err := n.order(t, "pause", nil); !errors.Is(err, fault.ErrUnavailable) {
		t.Error(err)
	}
}

func TestItemsAreListedAsTheyAre(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	l := map[int]*cms.Lease{}
	for range 3 {
		x, err := n.store.AcquireNext(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		l[x.ID.Shard] = x
	}
	var shards []int
	for s := range l {
		shards = append(shards, s)
	}
	if err := errors.Join(l[shards[0]].Handoff(t.Context(), 10, cms.Work{Counts: cms.Counts{Indexed: 10}}), l[shards[1]].Fail(t.Context(), "bad", nil)); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"handed off": 1, "failed": 1, "leased": 1, "open": 2}
	until(t, "the node has read them", func() bool {
		all, err := n.Items(t.Context(), status.ItemFilter{})
		return err == nil && maps.Equal(all.States, want) && len(all.Items) == 5
	})
	if some, err := n.Items(t.Context(), status.ItemFilter{States: []string{status.Failed}}); err != nil || len(some.Items) != 1 || some.Items[0].Failure != "bad" || some.Total != 5 {
		t.Errorf("%+v, %v", some, err)
	}
	if some, err := n.Items(t.Context(), status.ItemFilter{Index: "none"}); err != nil || some.Items == nil || len(some.Items) != 0 {
		t.Errorf("%+v, %v", some, err)
	}
	if some, err := n.Items(t.Context(), status.ItemFilter{Limit: 2}); err != nil || len(some.Items) != 2 {
		t.Errorf("%+v, %v", some, err)
	}
}

func TestSubscribersHearOfChangesAndOfTheirEnd(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	ctx, cancel := context.WithCancel(t.Context())
	ch := n.Subscribe(ctx)
	for range 3 {
		select {
		case <-ch:
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing is heard")
		}
	}
	cancel()
	until(t, "the channel is closed", func() bool {
		select {
		case _, ok := <-ch:
			return !ok
		default:
			return false
		}
	})
}

func TestTheNumberOfWorkersFollowsTheTarget(t *testing.T) {
	a := autoscale{max: 8, n: 8}
	now := time.Now()
	var total metrics.Sample
	a.wanted(now, total, 0)
	step := func(requests, busy int64) int {
		total.Bulk.Count += requests
		total.BulkBusy += busy
		now = now.Add(autoscaleInterval)
		return a.wanted(now, total, 0)
	}
	var got []int
	for range 10 {
		got = append(got, step(100, 50))
	}
	if got[0] != 6 || got[9] != 1 {
		t.Errorf("while the target is busy: %v", got)
	}
	if n := step(100, 5); n != 1 {
		t.Errorf("%d when it is a little busy", n)
	}
	if n := step(0, 0); n != 1 {
		t.Errorf("%d when nothing is sent", n)
	}
	got = nil
	for range 10 {
		got = append(got, step(100, 0))
	}
	if got[0] != 2 || got[9] != 8 {
		t.Errorf("when it is not: %v", got)
	}
	if n := newAutoscale(3, 1<<60); n.n != 1 {
		t.Errorf("%d workers without memory for one", n.n)
	}
}

// TestTheNodeTellsWhichDocumentsItsFleetWasRefused: they are among the failures once the counts of an item include them.
func TestTheNodeTellsWhichDocumentsItsFleetWasRefused(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	docs := []session.Refused{{Index: "logs", ID: "a", Ordinal: 3, Reason: "mapper"}, {Index: "logs", ID: "b", Ordinal: 4, Reason: "mapper"}, {Index: "logs", Ordinal: 5, Reason: "other"}}
	if err := session.RefusalsOf(n.store).Keep(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	l, err := n.store.AcquireNext(t.Context(), "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Complete(t.Context(), cms.Work{Counts: cms.Counts{Live: 10, Indexed: 7, Failed: 3}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the failures name them", func() bool {
		f, err := n.Failures(t.Context())
		return err == nil && len(f.Groups) == 1 && f.Groups[0].Count == 3 && slices.Equal(f.Documents, docs)
	})
}

// TestEachWorkerShowsItsPhase: what workers report is in the status and in the metrics, also while they hold no item, until they end.
func TestEachWorkerShowsItsPhase(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: 2}, &fakeStarter{stopped: handsOff})
		until(t, "both workers run", func() bool { return len(n.starter.workers()) == 2 })
		for _, state := range []WorkerPhase{{"snapshot", "IN_PROGRESS"}, {"metadata", "NOT_STARTED"}, {"indices", "IN_PROGRESS"}, {"documents", "SETUP"}, {"consume", "IN_PROGRESS"}} {
			n.starter.workers()[1].report(Record{Phase: &state})
			all := n.Status(t.Context()).Workers
			if len(all) != 2 || all[1].Phase != state.Name || all[1].PhaseState != state.State || all[0].Phase != "" {
				t.Errorf("%v: %+v", state, all)
			}
			if text := metricsOf(n.Daemon); !strings.Contains(text, fmt.Sprintf(`rfsd_workers_in_phase{phase=%q,state=%q} 1`, state.Name, state.State)) {
				t.Errorf("%v is not in the metrics", state)
			}
		}
		n.starter.workers()[1].exit(ExitDone, Record{})
		until(t, "another worker follows", func() bool { return len(n.starter.workers()) == 3 })
		if x := n.Status(t.Context()).Workers[1]; x.Phase != "" {
			t.Errorf("a worker that starts: %+v", x)
		}
	})
}
