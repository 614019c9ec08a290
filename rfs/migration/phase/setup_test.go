package phase_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestSetupOfDocumentsFails: workers that cannot prepare the documents, one after the other, end the phase with one event.
func TestSetupOfDocumentsFails(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		failed   bool
		attempts int
	}{
		{"an error that stays is counted", errors.New("this cannot be read"), true, timing.DefaultMaxAttempts + 1},
		{"damage of the repository ends it at once", fault.Corrupt("index-0", "", 3, "torn"), true, 1},
		{"an outage is not", fmt.Errorf("no answer: %w", fault.ErrUnavailable), false, timing.DefaultMaxAttempts + 1},
		{"what another worker changed meanwhile is not", fmt.Errorf("take over the queue: %w", cms.ErrConflict), false, timing.DefaultMaxAttempts + 1},
		{"what the user has to change is not", fmt.Errorf("no such index: %w", fault.ErrConfig), false, timing.DefaultMaxAttempts + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
			if err != nil {
				t.Fatal(err)
			}
			store := boltstore.Open(t)
			coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
			req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
			log := slog.New(slog.DiscardHandler)
			fails := true
			s := &phase.Session{
				Coordinator: coordinator, Holder: "worker", Settings: req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseDocuments},
				Source: phase.Source{Plan: func(ctx context.Context, _ string) (*plan.Plan, error) {
					if fails {
						return nil, c.err
					}
					return plan.New(ctx, blobs, req)
				}},
				Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs}, Runner: &engine.Runner{Destination: engine.ToNowhere(), Failed: migrationtest.NoFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log}},
			}
			for range c.attempts {
				if _, _, err := s.RunOne(t.Context(), nil); !errors.Is(err, c.err) {
					t.Fatalf("%v", err)
				}
			}
			_, _, err = s.RunOne(t.Context(), nil)
			var failed *phase.PhaseFailed
			if got := errors.As(err, &failed); got != c.failed || got && !strings.Contains(failed.Reason, c.err.Error()) {
				t.Fatalf("%v", err)
			}
			events := 0
			for r, err := range session.List(t.Context(), coordinator, "event") {
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(r.ID, ":failed") {
					events++
				}
			}
			if want := map[bool]int{true: 1}[c.failed]; events != want {
				t.Errorf("%d events, want %d", events, want)
			}
			// The migration is run again when something has been repaired.
			fails = false
			if err := s.ReopenFailed(t.Context()); err != nil {
				t.Fatal(err)
			}
			if outcome, _, err := s.RunOne(t.Context(), nil); err != nil || outcome != engine.Completed {
				t.Errorf("repaired: %v, %v", outcome, err)
			}
		})
	}
}
