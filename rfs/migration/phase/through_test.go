package phase_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestSession_ThroughAnOutageAfterALongStep: a step has lasted for longer than an outage may when the repository is away for a moment.
func TestSession_ThroughAnOutageAfterALongStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := process(t, newMemory(), migrationtest.NewOutside(), 1, &migrationtest.Life{})
		planned := 0
		s.Plan = func(context.Context, string) (*plan.Plan, error) {
			if planned++; planned > 1 {
				return threeIndices(), nil
			}
			time.Sleep(3 * time.Minute)
			return nil, fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
		}
		if err := toItems(t.Context(), s); err != nil || planned < 2 {
			t.Errorf("%v, planned %d times", err, planned)
		}
	})
}
