package cms_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestWhatALeaseEndedItselfIsNotLost: a progress request sent before the end of the lease may be applied after it.
func TestWhatALeaseEndedItselfIsNotLost(t *testing.T) {
	for name, end := range map[string]func(*bench, *cms.Lease) error{
		"completed":  func(_ *bench, l *cms.Lease) error { return l.Complete(t.Context(), cms.Work{}) },
		"handed off": func(_ *bench, l *cms.Lease) error { return l.Handoff(t.Context(), 40, cms.Work{}) },
		"successors stored": func(b *bench, l *cms.Lease) error {
			b.store.create = func() error { return errLost }
			if err := l.Handoff(t.Context(), 40, cms.Work{}); !errors.Is(err, fault.ErrUnavailable) {
				return fmt.Errorf("the hand-off was not cut short: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0)
			l := b.lease(t)
			if err := end(b, l); err != nil {
				t.Fatal(err)
			}
			was := b.item(t)
			if err := l.Progress(t.Context(), 20, cms.Work{}); err != nil {
				t.Errorf("progress: %v", err)
			}
			if err := l.Validate(t.Context()); err != nil {
				t.Errorf("validate: %v", err)
			}
			if err := l.Check(); err != nil {
				t.Errorf("check: %v", err)
			}
			if is := b.item(t); is != was {
				t.Errorf("changed from %+v to %+v", was, is)
			}
		})
	}
}

func TestAnExpiredLeaseThatWasNotTakenMayComplete(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	b.clock.at = b.clock.at.Add(time.Hour)
	if err := l.Complete(t.Context(), cms.Work{}); err != nil {
		t.Fatal(err)
	}
	if it := b.item(t); it.Open() {
		t.Errorf("%+v", it)
	}
}

func TestCompletionOverAStoredSuccessorFinishesTheHandoff(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	tries := 0
	b.store.create = func() error {
		if tries++; tries <= 8 {
			return errLost // the hand-off gives up after its second step
		}
		return nil
	}
	w := cms.Work{Counts: cms.Counts{Ordinals: 40}}
	if err := l.Handoff(t.Context(), 40, w); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if err := l.Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 90}}); err != nil {
		t.Fatal(err)
	}
	it := b.item(t)
	if it.Open() || it.Successors != cmstest.ID("a", 0, 40) || it.Counts.Ordinals != 40 {
		t.Errorf("%+v", it)
	}
	if next := b.lease(t); next.ID.Cursor != 40 {
		t.Errorf("%+v", next.Item)
	}
}

func TestAHandoffTheStoreForgotIsNotCompleted(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	before := b.item(t)
	b.store.create = func() error { // a failover to a copy without the second step
		b.forget(t, before)
		return nil
	}
	if err := l.Handoff(t.Context(), 40, cms.Work{}); !errors.Is(err, fault.ErrLeaseLost) {
		t.Fatalf("got %v", err)
	}
	if it := b.item(t); !it.Open() {
		t.Errorf("completed without its successor: %+v", it)
	}
}

// forget resets the item to a former state.
func (b *bench) forget(t *testing.T, was cms.Item) {
	t.Helper()
	if _, _, err := b.store.Store.Apply(t.Context(), b.id, restore{was}); err != nil {
		t.Fatal(err)
	}
}

type restore struct{ was cms.Item }

func (restore) Name() string { return "restore" }

func (r restore) Apply(cms.Item, int64) (cms.Item, cms.Result) { return r.was, cms.Applied }

func TestRetriesEndBeforeTheLeaseDoes(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	start := b.clock.at
	tries := 0
	b.store.before = func(cms.Transition) error { tries++; return errLost }
	b.clock.at = b.clock.at.Add(9*time.Minute + 30*time.Second)
	if err := l.Complete(t.Context(), cms.Work{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if end := b.clock.at.Sub(start); end > 10*time.Minute || tries < 3 {
		t.Errorf("%d tries until %v", tries, end)
	}
}

func TestCompletionIsTriedForTwoMinutes(t *testing.T) {
	b := newBench(t, 0)
	l := b.lease(t)
	start := b.clock.at
	b.store.before = func(cms.Transition) error { return errLost }
	if err := l.Complete(t.Context(), cms.Work{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if d := b.clock.at.Sub(start); d != 127*time.Second {
		t.Errorf("tried for %v", d)
	}
}
