package progress_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// TestAFollowerOfASlowStore: a first reading that took two seconds on a busy machine delayed the next by 40 s, during which a running
// migration was shown at 0 %.
func TestAFollowerOfASlowStore(t *testing.T) {
	for _, c := range []struct {
		name   string
		took   time.Duration
		seeded int // from which reading on there are items
		within time.Duration
		most   int // readings in ten minutes
	}{
		{"the work is known soon after it starts", 2 * time.Second, 3, 15 * time.Second, 20},
		{"a store that answers immediately", 10 * time.Millisecond, 3, 5 * time.Second, 125},
		{"what is known is read for a twentieth of the time", 2 * time.Second, 1, 3 * time.Second, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				readings := 0
				f := &progress.Follower{Clock: timing.SystemClock(), Read: func(context.Context) (*progress.Migration, error) {
					time.Sleep(c.took)
					readings++
					m := &progress.Migration{}
					if readings >= c.seeded {
						m.Totals.Items, m.Totals.Bytes, m.Totals.BytesDone = 4, 1000, 500
					}
					return m, nil
				}}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); f.Run(ctx) }()
				time.Sleep(c.within)
				if v := f.View(); v.Share != 0.5 {
					t.Errorf("after %v %v are shown of a half that is done", c.within, v.Share)
				}
				time.Sleep(10*time.Minute - c.within)
				stop()
				<-ended
				if readings > c.most {
					t.Errorf("%d readings in ten minutes, at most %d are wanted", readings, c.most)
				}
			})
		})
	}
}
