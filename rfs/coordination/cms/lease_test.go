package cms_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// hands is a machine's clock that is set by hand; sleeping moves it.
type hands struct {
	at   time.Time // true time
	skew time.Duration
	lag  time.Duration // the monotonic clock missed this
}

func (h *hands) Read() timing.Reading {
	up := h.at.Sub(time.UnixMilli(now))
	return timing.Reading{Wall: h.at.Add(h.skew), Mono: up - h.lag, Boot: up}
}

func (h *hands) Sleep(ctx context.Context, d time.Duration) error {
	h.at = h.at.Add(d)
	return ctx.Err()
}

// faulty loses answers, or the requests themselves, on request.
type faulty struct {
	cms.Store
	before func(t cms.Transition) error // not applied
	after  func(t cms.Transition) error // applied, but the answer is lost
	create func() error
}

func (f *faulty) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if f.before != nil {
		if err := f.before(t); err != nil {
			return cms.Item{}, 0, err
		}
	}
	it, v, err := f.Store.Apply(ctx, id, t)
	if f.after != nil {
		if lost := f.after(t); lost != nil {
			return cms.Item{}, 0, lost
		}
	}
	return it, v, err
}

func (f *faulty) Create(ctx context.Context, items []cms.Item) (int, error) {
	if f.create != nil {
		if err := f.create(); err != nil {
			return 0, err
		}
	}
	return f.Store.Create(ctx, items)
}

var errLost = fmt.Errorf("no answer: %w", fault.ErrUnavailable)

// bench is a store with one seeded shard, and a coordinator on it.
type bench struct {
	*cms.Coordinator
	store *faulty
	clock *hands
	id    string
}

func newBench(t *testing.T, tolerance time.Duration) *bench {
	t.Helper()
	clock := &hands{at: time.UnixMilli(now)}
	s, err := boltcms.Open(filepath.Join(t.TempDir(), "cms.db"), func() time.Time { return clock.at })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b := &bench{store: &faulty{Store: s}, clock: clock, id: cmstest.ID("a", 0, 0)}
	b.Coordinator = b.coordinator(t, tolerance)
	cmstest.Seed(t, b.Coordinator, "a", 1)
	return b
}

func (b *bench) coordinator(t *testing.T, tolerance time.Duration) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: b.store, Clock: b.clock, Creator: "test", SkewTolerance: tolerance})
	return c
}

func (b *bench) lease(t *testing.T) *cms.Lease {
	t.Helper()
	l, err := b.AcquireNext(t.Context(), "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (b *bench) item(t *testing.T) cms.Item {
	t.Helper()
	it, err := b.store.Get(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestTheDeadlineIsTheEarliestOfThreeClocks(t *testing.T) {
	for _, tc := range []struct {
		name string
		move func(*hands)
		lost bool
	}{
		{"just before", func(h *hands) { h.at = h.at.Add(9*time.Minute + 44*time.Second) }, false},
		{"the margin before its end", func(h *hands) { h.at = h.at.Add(9*time.Minute + 45*time.Second) }, true},
		{"the wall clock jumps forward", func(h *hands) { h.skew = 10 * time.Minute }, true},
		{"the wall clock jumps back, time passes", func(h *hands) { h.skew = -time.Hour; h.at = h.at.Add(10 * time.Minute) }, true},
		{"the machine slept", func(h *hands) {
			h.at = h.at.Add(20 * time.Minute)
			h.lag = 20 * time.Minute
			h.skew = -20 * time.Minute
		}, true},
	} {
		b := newBench(t, 0)
		l := b.lease(t)
		if err := l.Check(); err != nil {
			t.Fatalf("%s: fresh lease: %v", tc.name, err)
		}
		tc.move(b.clock)
		if err := l.Check(); errors.Is(err, fault.ErrLeaseLost) != tc.lost {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestTheDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	b := newBench(t, 0)
	b.store.after = func(cms.Transition) error { b.clock.at = b.clock.at.Add(3 * time.Minute); return nil } // a slow answer
	l := b.lease(t)
	if got := l.UntilDeadline(); got != 6*time.Minute+45*time.Second {
		t.Errorf("%v until the deadline", got)
	}
	if got := l.UntilTrigger(); got != 2*time.Minute { // at half of the lease: a hand-off has five such requests
		t.Errorf("%v until the trigger", got)
	}
}

func TestALeaseWhoseAnswerCameTooLateIsGivenBack(t *testing.T) {
	b := newBench(t, 0)
	slow := true
	b.store.after = func(tr cms.Transition) error {
		if _, ok := tr.(cms.Acquire); ok && slow {
			slow = false
			b.clock.at = b.clock.at.Add(8 * time.Minute)
		}
		return nil
	}
	l := b.lease(t)
	if it := b.item(t); it.Attempts != 1 || l.UntilTrigger() < 7*time.Minute {
		t.Errorf("%+v", it)
	}
	if l.Length != 20*time.Minute {
		t.Errorf("the next lease is of %v, no longer than the one that was too short", l.Length)
	}
}

func TestClockSkewIsNamedAndNeverNoWork(t *testing.T) {
	b := newBench(t, timing.DefaultTolerance)
	b.clock.skew = 15 * time.Second
	if _, err := b.AcquireNext(t.Context(), "h", nil); err != nil {
		t.Fatalf("a skew of the tolerance: %v", err)
	}
	b = newBench(t, timing.DefaultTolerance)
	for _, skew := range []time.Duration{16 * time.Second, -10 * time.Minute} {
		b.clock.skew = skew
		if _, err := b.AcquireNext(t.Context(), "h", nil); !errors.Is(err, cms.ErrClockSkew) || !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%v: got %v", skew, err)
		}
	}
	if fresh, err := b.Event(t.Context(), "test", "clock_skew", ""); err != nil || fresh {
		t.Errorf("no event: %v %v", fresh, err)
	}
	if it := b.item(t); it.Holder != "" {
		t.Errorf("leased: %+v", it)
	}
	off := newBench(t, 0)
	off.clock.skew = 10 * time.Minute
	off.lease(t)
}

func TestALostAcquisitionIsAdoptedWhileHalfOfItIsLeft(t *testing.T) {
	b := newBench(t, 0)
	lose := func(tr cms.Transition) error {
		if _, ok := tr.(cms.Acquire); !ok {
			return nil
		}
		return errLost
	}
	b.store.after = lose
	l := b.lease(t)
	if it := b.item(t); it.Holder != l.Holder || it.Attempts != 1 {
		t.Errorf("%+v", it)
	}
	b = newBench(t, 0)
	first := true
	b.store.after = func(tr cms.Transition) error {
		if _, ok := tr.(cms.Acquire); !ok || !first {
			return nil
		}
		first = false
		b.clock.at = b.clock.at.Add(6 * time.Minute)
		return errLost
	}
	l = b.lease(t)
	if it := b.item(t); l.UntilDeadline() < 9*time.Minute || it.Attempts != 1 || it.Exponent != 1 {
		t.Errorf("an old lease was kept, or its return counted: %+v", it)
	}
}

func TestEachAcquisitionHasAHolderOfItsOwn(t *testing.T) {
	b := newBench(t, 0)
	first := b.lease(t)
	if err := first.Release(t.Context(), cms.CauseDrain); err != nil {
		t.Fatal(err)
	}
	second := b.lease(t)
	if first.Holder == second.Holder {
		t.Fatal("one holder id for two acquisitions")
	}
	for name, err := range map[string]error{
		"progress": first.Progress(t.Context(), 5, cms.Work{}),
		"handoff":  first.Handoff(t.Context(), 5, cms.Work{}),
		"complete": first.Complete(t.Context(), cms.Work{}),
		"fail":     first.Fail(t.Context(), "r", nil),
		"check":    first.Check(),
	} {
		if !errors.Is(err, fault.ErrLeaseLost) {
			t.Errorf("%s of the zombie: %v", name, err)
		}
	}
	if err := first.Release(t.Context(), cms.CauseNone); err != nil {
		t.Errorf("late release: %v", err)
	}
	if err := second.Validate(t.Context()); err != nil {
		t.Errorf("the zombie disturbed the holder: %v", err)
	}
}

func TestAStolenLeaseIsNoticedAfterAPause(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	if _, v, err := b.store.Apply(t.Context(), b.id, cms.Reclaim{}); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	if err := l.Validate(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if err := l.Check(); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("a request may still be started: %v", err)
	}
}

func TestAQueueIsNotDoneWhileItIsSeeded(t *testing.T) {
	clock := &hands{at: time.UnixMilli(now)}
	s, err := boltcms.Open(filepath.Join(t.TempDir(), "cms.db"), func() time.Time { return clock.at })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := &bench{store: &faulty{Store: s}, clock: clock}
	c := b.coordinator(t, 0)
	setup, err := c.AcquireSetup(t.Context(), "one")
	if err != nil || setup.Length != 5*time.Minute {
		t.Fatal(err)
	}
	var none *cms.NoneAvailable
	if _, err := c.AcquireNext(t.Context(), "two", nil); !errors.As(err, &none) || none.Holder != setup.Holder {
		t.Errorf("got %v", err)
	}
	if _, err := c.AcquireSetup(t.Context(), "two"); !errors.As(err, &none) || none.NextExpiry.Sub(clock.at) < 5*time.Minute {
		t.Errorf("got %v", err)
	}
	clock.at = clock.at.Add(6 * time.Minute) // the seeder is dead
	second, err := c.AcquireSetup(t.Context(), "two")
	if err != nil {
		t.Fatal(err)
	}
	if err := setup.Complete(t.Context(), cms.Work{}); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("the first seeder completed: %v", err)
	}
	if err := second.Complete(t.Context(), cms.Work{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AcquireNext(t.Context(), "two", nil); !errors.Is(err, cms.ErrAllDone) {
		t.Errorf("got %v", err)
	}
}

func TestNoneAvailableSaysWhoAndUntilWhen(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	var none *cms.NoneAvailable
	_, err := b.AcquireNext(t.Context(), "other", nil)
	if !errors.As(err, &none) || none.Holder != l.Holder || none.Open != 1 {
		t.Fatalf("got %v", err)
	}
	if d := none.NextExpiry.Sub(b.clock.at); d < 10*time.Minute || d > 10*time.Minute+6*time.Second {
		t.Errorf("until %v", d)
	}
}

func TestAnotherVersionOfTheQueueIsRefused(t *testing.T) {
	b := newBench(t, 0)
	b.lease(t)
	old := cms.Item{ID: cmstest.ID("old", 0, 0), ScriptVersion: "2.0"}
	if _, err := b.store.Create(t.Context(), []cms.Item{old}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AcquireNext(t.Context(), "h", nil); !errors.Is(err, cms.ErrSchemaMismatch) {
		t.Errorf("got %v", err)
	}
}

func TestAReplacedTargetFailsTheFreeItemsOfItsIndex(t *testing.T) {
	b := newBench(t, 0)
	if got, err := session.EntriesOf(b.Coordinator).ClaimTarget(t.Context(), "a", "uuid-1"); err != nil || got != "uuid-1" {
		t.Fatalf("%s %v", got, err)
	}
	if got, err := session.EntriesOf(b.Coordinator).ClaimTarget(t.Context(), "a", "uuid-2"); err != nil || got != "uuid-1" {
		t.Fatalf("%s %v", got, err)
	}
	l := b.lease(t)
	if n, err := b.FailIndex(t.Context(), "a", "target_index_replaced"); err != nil || n != 0 {
		t.Errorf("failed %d held items: %v", n, err)
	}
	if err := l.Fail(t.Context(), "target_index_replaced", nil); err != nil {
		t.Fatal(err)
	}
	if it := b.item(t); it.Failure != "target_index_replaced" || !it.FailedItem() {
		t.Errorf("%+v", it)
	}
	if err := l.Complete(t.Context(), cms.Work{}); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("a failed item was completed: %v", err)
	}
}

func TestAParentReleasesTheLeaseOfItsDeadChild(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	if err := b.ReleaseHolder(t.Context(), l.Item.ID, l.Holder, cms.CauseKilled); err != nil {
		t.Fatal(err)
	}
	it := b.item(t)
	if it.Holder != "" || it.Attempts != 0 || it.Exponent != 0 || it.ReleasedFor != "killed" {
		t.Errorf("%+v", it)
	}
	if err := b.ReleaseHolder(t.Context(), l.Item.ID, l.Holder, cms.CauseKilled); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAnItemInMidShardOfAnotherEngineIsNeverLeased(t *testing.T) {
	b := newBench(t, 0)
	foreign := cms.NewItem(cmstest.ID("a", 0, 500), "java", 0)
	if _, err := b.store.Create(t.Context(), []cms.Item{foreign}); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 2 { // a root begins at 0, whichever process seeded it
		var l *cms.Lease
		if l, err = b.AcquireNext(t.Context(), "h", nil); err != nil {
			break
		}
		if l.ID.Cursor != 0 {
			t.Fatalf("leased %+v", l.ID)
		}
	}
	if !errors.Is(err, cms.ErrForeign) {
		t.Errorf("got %v", err)
	}
	if got, err := b.store.Get(t.Context(), foreign.ID); err != nil || got != foreign {
		t.Errorf("%+v %v", got, err)
	}
}

func TestALostRaceIsNoLease(t *testing.T) {
	b := newBench(t, 0)
	asked := 0
	b.store.before = func(tr cms.Transition) error {
		if _, ok := tr.(cms.Acquire); ok {
			asked++
			return cms.ErrConflict
		}
		return nil
	}
	l, err := b.AcquireNext(t.Context(), "h", nil)
	var none *cms.NoneAvailable
	if l != nil || !errors.As(err, &none) || asked < 2 {
		t.Errorf("after %d lost races: %+v %v", asked, l, err)
	}
	if it := b.item(t); it.Holder != "" {
		t.Errorf("%+v", it)
	}
}

// TestLease_MovedAt: only a higher ordinal that the store has recorded is progress.
func TestLease_MovedAt(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	ctx := t.Context()
	for _, c := range []struct {
		name   string
		record func() error
		lost   error
		want   time.Duration
	}{
		{"nothing", func() error { return nil }, nil, 0},
		{"where the lease started", func() error { return l.Progress(ctx, 0, cms.Work{}) }, nil, 0},
		{"higher", func() error { return l.Progress(ctx, 5, cms.Work{}) }, nil, 3 * time.Minute},
		{"the same again", func() error { return l.Progress(ctx, 5, cms.Work{}) }, nil, 3 * time.Minute},
		{"higher, without an answer", func() error { return l.Progress(ctx, 7, cms.Work{}) }, errLost, 3 * time.Minute},
		{"higher, not durable", func() error { return l.Reach(ctx, 9) }, nil, 6 * time.Minute},
	} {
		b.clock.at = b.clock.at.Add(time.Minute)
		b.store.before = func(cms.Transition) error { return c.lost }
		if err := c.record(); !errors.Is(err, c.lost) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if at, moved := l.MovedAt(); at != c.want || moved != (c.want > 0) {
			t.Errorf("%s: %v %v, want %v", c.name, at, moved, c.want)
		}
	}
}
