package worker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestABusyTargetCostsSeconds lets the clusters and the store refuse everything for a while, from each call of a migration on: the
// migration ends at most 8 s later than it would without, beyond the time of the refusals, and nothing is given up.
func TestABusyTargetCostsSeconds(t *testing.T) {
	calls, want, took := &migrationtest.Life{}, "", time.Duration(0)
	synctest.Test(t, func(t *testing.T) {
		w, begin := newWorld(t), time.Now()
		sum, err := w.run(t, 1, calls)
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		want, took = w.left(sum), time.Since(begin)
	})
	for _, busy := range []time.Duration{20 * time.Second, 8 * time.Second} {
		if testing.Short() && busy < 10*time.Second {
			continue
		}
		worst := time.Duration(0)
		step := 1
		if testing.Short() {
			step = 3
		}
		for call := 1; call <= calls.Calls; call += step {
			var err error
			var more time.Duration
			got := ""
			synctest.Test(t, func(t *testing.T) {
				w, begin := newWorld(t), time.Now()
				var sum *summary.Summary
				if sum, err = w.run(t, 1, &migrationtest.Life{Dies: call, Lasts: busy, Fails: fmt.Errorf("circuit_breaking_exception: %w", fault.ErrUnavailable)}); err == nil {
					got = w.left(sum)
				}
				more = time.Since(begin) - took - busy
			})
			worst = max(worst, more)
			if err != nil || got != want || more > 10*time.Second {
				t.Errorf("from call %d on, for %v: %v, %v more than the time of the refusals; as without: %v", call, busy, err, more, got == want)
			}
		}
		t.Logf("%d calls, busy for %v: at most %v more", calls.Calls, busy, worst)
	}
}
