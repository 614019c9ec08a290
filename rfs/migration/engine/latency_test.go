package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// loadedTarget takes 50 ms for each request under way, and more while others load it.
type loadedTarget struct {
	mu       sync.Mutex
	underWay int
	most     int           // requests at the same time
	others   time.Duration // that each request takes longer
	sum      time.Duration
	n        int
}

func (l *loadedTarget) Send(context.Context, []byte, int) (bulk.Result, error) {
	l.mu.Lock()
	l.underWay++
	l.most = max(l.most, l.underWay)
	took := time.Duration(l.underWay)*50*time.Millisecond + l.others
	l.sum, l.n = l.sum+took, l.n+1
	l.mu.Unlock()
	time.Sleep(took)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	return bulk.Result{}, nil
}

// since returns the mean time of the requests since the last call, how many there were, and most at the same time.
func (l *loadedTarget) since() (mean time.Duration, n, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mean, n, most = l.sum/time.Duration(max(l.n, 1)), l.n, l.most
	l.sum, l.n, l.most = 0, 0, 0
	return mean, n, most
}

// TestTheLoadFollowsTheLatencyOfTheTarget: requests that take longer than the limit become fewer at the same time, then
// pauses come between them; when the target is quick again, all connections are used.
func TestTheLoadFollowsTheLatencyOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &loadedTarget{}
		out, err := engine.ToCluster(to, engine.Limits{Connections: 8, MaxLatency: func() time.Duration { return 200 * time.Millisecond }}).Open(t.Context(), cms.ItemID{}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var senders sync.WaitGroup
		for range 8 {
			senders.Go(func() {
				for ctx.Err() == nil {
					_, _ = out.Send(ctx, nil, 1)
				}
			})
		}
		time.Sleep(20 * time.Second)
		to.since()
		time.Sleep(20 * time.Second)
		if mean, n, most := to.since(); mean > 220*time.Millisecond || most < 3 || n < 20*10 {
			t.Errorf("by itself: %d requests of %v, %d at the same time; without a limit they take 400 ms", n, mean, most)
		}
		to.mu.Lock()
		to.others = 300 * time.Millisecond // whatever we do, it takes longer than the limit
		to.mu.Unlock()
		time.Sleep(20 * time.Second)
		to.since()
		time.Sleep(60 * time.Second)
		if _, n, most := to.since(); most > 1 || n > 30 || n < 5 {
			t.Errorf("beside others: %d requests in a minute, %d at the same time", n, most)
		}
		to.mu.Lock()
		to.others = 0
		to.mu.Unlock()
		time.Sleep(30 * time.Second)
		to.since()
		time.Sleep(20 * time.Second)
		if _, n, most := to.since(); most < 3 || n < 20*10 {
			t.Errorf("afterwards: %d requests, %d at the same time", n, most)
		}
		stop()
		senders.Wait()
	})
}
