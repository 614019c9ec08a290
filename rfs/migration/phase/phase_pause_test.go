package phase_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestSession_PausesBetweenAttempts: each pause is twice as long as the last one, up to 30 s. What the target rejects is tried again soon,
// since a pause would not help.
func TestSession_PausesBetweenAttempts(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want []time.Duration
	}{
		{"an error", errors.New("out of order"), []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}},
		{"a rejection", fmt.Errorf("template t: %w", fault.ErrRejected), slices.Repeat([]time.Duration{time.Second}, 6)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				s := process(t, m, migrationtest.NewOutside(), 1, &migrationtest.Life{})
				s.Coordinator, s.Jitter = cms.New(cms.Config{Store: m, Creator: "test", MaxAttempts: 7}), func() float64 { return 1 }
				var at []time.Time
				s.Globals = func(context.Context, *plan.Plan, objects.Ledger) (creation.GlobalsResult, error) {
					at = append(at, time.Now())
					return creation.GlobalsResult{}, c.err
				}
				var failed *phase.PhaseFailed
				if err := toItems(t.Context(), s); !errors.As(err, &failed) || len(at) != 7 {
					t.Fatalf("%d attempts, %v", len(at), err)
				}
				var pauses []time.Duration
				for i, next := range at[1:] {
					pauses = append(pauses, next.Sub(at[i]))
				}
				if !slices.Equal(pauses, c.want) {
					t.Errorf("%v, want %v", pauses, c.want)
				}
			})
		})
	}
}
