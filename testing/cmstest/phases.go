package cmstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// phases lets many workers compete for a phase, and moves it through its states.
func phases(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	if p, err := session.PhasesOf(c).Read(ctx, session.MetadataPhase); err != nil || p.State != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	var holders atomic.Int64
	var lease atomic.Pointer[session.PhaseLease]
	var all sync.WaitGroup
	for n := range 8 {
		own := Coordinator(t, s, 10*time.Minute)
		all.Go(func() {
			l, err := session.PhasesOf(own).Acquire(ctx, session.MetadataPhase, fmt.Sprint("h", n))
			var busy *cms.NoneAvailable
			switch {
			case err == nil:
				holders.Add(1)
				lease.Store(l)
			case !errors.As(err, &busy):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if holders.Load() != 1 {
		t.Fatalf("%d hold the phase", holders.Load())
	}
	l := lease.Load()
	if err := l.Save(ctx, "", []byte(`{"done":1}`), true); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx, cms.CauseDrain, ""); err != nil {
		t.Fatal(err)
	}
	next, err := session.PhasesOf(c).Acquire(ctx, session.MetadataPhase, "next")
	if err != nil || next.Phase.Attempts != 1 || string(next.Phase.Body) != `{"done":1}` {
		t.Fatalf("%+v, %v", next, err)
	}
	var busy *cms.NoneAvailable
	if _, err := session.PhasesOf(c).Acquire(ctx, session.MetadataPhase, "late"); !errors.As(err, &busy) || busy.Holder == "" {
		t.Errorf("%v", err)
	}
	if err := l.Save(ctx, "", nil, false); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("the former holder still writes: %v", err)
	}
	err = next.Run(ctx, func(ctx context.Context) error {
		return next.Advance(ctx, session.PhaseCompleted, []byte(`{"done":2}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.PhasesOf(c).Acquire(ctx, session.MetadataPhase, "late"); !errors.Is(err, cms.ErrMoved) {
		t.Errorf("%v", err)
	}
	p, err := session.PhasesOf(c).Read(ctx, session.MetadataPhase)
	if err != nil || p.State != session.PhaseCompleted || string(p.Body) != `{"done":2}` || p.Holder != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// entries lets many workers fail and complete the same index entry.
func entries(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	for _, name := range []string{"good", "bad"} {
		for n := range 2 {
			created, err := session.EntriesOf(c).Create(ctx, session.IndexEntry{Name: name, State: session.PhaseNotStarted, Shards: 3, Body: []byte(`{"n":1}`)})
			if err != nil || len(created) != 1-n {
				t.Fatalf("created %v, %v", created, err)
			}
		}
	}
	var all sync.WaitGroup
	for range 8 {
		own := Coordinator(t, s, 10*time.Minute)
		all.Go(func() {
			if _, err := session.EntriesOf(own).AttemptFailed(ctx, "bad", 0, "no"); err != nil {
				t.Error(err)
			}
			if _, err := session.EntriesOf(own).Complete(ctx, "good", []byte(`{"n":2}`)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e, err := session.EntriesOf(c).Read(ctx, "bad")
	if err != nil || e.Attempts != 1 || e.State != session.PhaseNotStarted {
		t.Fatalf("eight that saw the same attempt count as one: %+v, %v", e, err)
	}
	for e.State == session.PhaseNotStarted && e.Attempts < 20 {
		if e, err = session.EntriesOf(c).AttemptFailed(ctx, "bad", e.Attempts, "no"); err != nil {
			t.Fatal(err)
		}
	}
	if e.Attempts != timing.DefaultMaxAttempts+1 || e.State != session.PhaseFailed || e.Error != "no" || string(e.Body) != `{"n":1}` {
		t.Errorf("%+v", e)
	}
	if again, err := c.Event(ctx, "index bad", "failed", ""); err != nil || again {
		t.Errorf("the failure was not told: %v, %v", again, err)
	}
	if err := c.CreateFailedItems(ctx, slices.Values([]cms.FailedIndex{{Name: "bad", Shards: 3, Reason: "no"}})); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Pending(ctx); err != nil || n != 0 {
		t.Errorf("%d open items, %v", n, err)
	}
	var names []string
	for e, err := range session.EntriesOf(c).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name+" "+e.State+" "+string(e.Body))
	}
	if len(names) != 2 || names[0] != `bad FAILED {"n":1}` || names[1] != `good COMPLETED {"n":2}` {
		t.Errorf("%q", names)
	}
}
