package phase_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestAWorkerReportsItsPhase: what a worker acts on in every phase, in the order of the state machine, each once.
func TestAWorkerReportsItsPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := migrationtest.NewMemory(), migrationtest.NewOutside()
		s := process(t, m, x, 1, &migrationtest.Life{})
		var at []string
		s.Moved = func(phase, state string) { at = append(at, phase+" "+state) }
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		want := []string{"snapshot NOT_STARTED", "metadata NOT_STARTED", "indices NOT_STARTED", "indices IN_PROGRESS", "documents NOT_STARTED", "documents IN_PROGRESS"}
		if !slices.Equal(at, want) {
			t.Errorf("reported %q, want %q", at, want)
		}
	})
}

// TestTheRecordOfTheDocumentsNamesWhoPreparesThem: state, end of the lease and attempts of the record, while the items are made, after
// that failed by itself, and afterwards.
func TestTheRecordOfTheDocumentsNamesWhoPreparesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := migrationtest.NewMemory()
		c := cms.New(cms.Config{Store: m, Creator: "test", InitialLease: time.Minute, MaxAttempts: 2})
		ctx := t.Context()
		if _, err := session.PhasesOf(c).Move(ctx, session.DocsPhase, "", session.PhaseSetup, nil); err != nil {
			t.Fatal(err)
		}
		phase := func() session.Phase {
			p, err := session.PhasesOf(c).Read(ctx, session.DocsPhase)
			if err != nil {
				t.Error(err)
			}
			return p
		}
		broken := errors.New("broken")
		for n := range 3 {
			err := session.PhasesOf(c).SeedOnce(ctx, "w", func(context.Context) error {
				if p := phase(); p.Holder == "" || !p.Expire.After(time.Now()) || p.Attempts != n || p.State != session.PhaseSetup {
					t.Errorf("while the items are made: %+v", p)
				}
				return broken
			}, nil)
			if !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if p := phase(); p.Holder != "" || !p.Expire.IsZero() {
				t.Errorf("after an attempt that failed: %+v", p)
			}
			if err := session.PhasesOf(c).SetupFailed(ctx, n, "broken", false); err != nil {
				t.Fatal(err)
			}
		}
		if p := phase(); p.State != session.PhaseFailed || p.Attempts != 3 || p.Error != "broken" || p.Holder != "" {
			t.Errorf("after the last attempt: %+v", p)
		}
		if _, err := session.PhasesOf(c).Reopen(ctx, session.DocsPhase, "ann", nil); err != nil {
			t.Fatal(err)
		}
		if err := session.PhasesOf(c).SetupFailed(ctx, 0, "broken", false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AcquireSetup(ctx, "dead"); err != nil {
			t.Fatal(err)
		}
		r := m.Records["phase:docs"]
		r.Holder, r.Expire = "dead_1", time.Now().Add(time.Minute).UnixMilli()
		m.Records["phase:docs"] = r
		if err := session.HeldOf(c).ReleaseDead(ctx, "dead", cms.CauseKilled); err != nil {
			t.Fatal(err)
		}
		if p := phase(); p.Holder != "" {
			t.Errorf("after the death of the holder: %+v", p)
		}
		if p := phase(); p.Attempts != 1 {
			t.Errorf("a worker that was killed takes an attempt back that had failed: %+v", p)
		}
		if moved, err := session.PhasesOf(c).Move(ctx, session.DocsPhase, session.PhaseSetup, session.PhaseInProgress, nil); err != nil || !moved {
			t.Fatal(moved, err)
		}
		if p := phase(); p.Holder != "" || !p.Expire.IsZero() {
			t.Errorf("after the setup: %+v", p)
		}
	})
}
