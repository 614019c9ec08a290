package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// cappedTarget answers each request after 100 ms, most at the same time; it refuses all while refusing is set.
type cappedTarget struct {
	refusing atomic.Bool
	most     int32
	underWay atomic.Int32
	peak     atomic.Int32
	taken    atomic.Int64 // requests
}

func (c *cappedTarget) Send(_ context.Context, _ []byte, n int) (bulk.Result, error) {
	now := c.underWay.Add(1)
	defer c.underWay.Add(-1)
	if c.peak.Load() < now {
		c.peak.Store(now)
	}
	if c.refusing.Load() || now > c.most {
		time.Sleep(10 * time.Millisecond)
		var all []bulk.Refusal
		for i := range n {
			all = append(all, bulk.Refusal{Pos: i, Status: 429})
		}
		return bulk.Result{Refused: all}, nil
	}
	time.Sleep(100 * time.Millisecond)
	c.taken.Add(1)
	return bulk.Result{}, nil
}

// TestTheFlowOfAProcess: the requests of all slots grow to what the target takes at once and stay there, and 5 s after 60 s of
// refusals the rate of before is back.
func TestTheFlowOfAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, most = 2, 16
		to := &cappedTarget{most: most}
		flow := throttle.NewFlow(most, 5<<20)
		cluster := engine.ToCluster(to, engine.Limits{Connections: most, Flow: flow})
		recovery := &bulk.Recovery{}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for slot := range slots {
			all.Go(func() {
				out, err := cluster.Open(ctx, cms.ItemID{}, func() error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				l := bulk.New(t.Context(), bulk.Options{Sender: out, Recorder: migrationtest.NoFailures{}, MaxDocs: 1, MaxInFlight: most / slots, Bounds: bulk.Share{Requests: flow, Slots: slots, Recovery: recovery}, Recovery: recovery})
				defer l.Abort()
				for n := int64(0); ctx.Err() == nil; n++ {
					_ = l.Add(ctx, &doc.Document{Index: []byte("i"), ID: fmt.Appendf(nil, "%d-%d", slot, n), Source: []byte("{}"), Ordinal: n})
				}
			})
		}
		rate := func(d time.Duration) float64 {
			before := to.taken.Load()
			time.Sleep(d)
			return float64(to.taken.Load()-before) / d.Seconds()
		}
		if first := rate(time.Second); first > 45 {
			t.Errorf("%v requests a second at first, of 10 for each of 4", first)
		}
		time.Sleep(30 * time.Second)
		full := rate(5 * time.Second)
		if full < 150 {
			t.Errorf("%v requests a second of 160 after half a minute", full)
		}
		to.refusing.Store(true)
		time.Sleep(time.Minute)
		to.refusing.Store(false)
		time.Sleep(5 * time.Second)
		if after := rate(5 * time.Second); after < 0.95*full {
			t.Errorf("%v requests a second 5 s after a minute of refusals, %v before", after, full)
		}
		if to.peak.Load() > most {
			t.Errorf("%d requests at the same time", to.peak.Load())
		}
		stop()
		all.Wait()
	})
}

// hotTarget answers each request after 100 ms, most at the same time, and refuses those of the index h.
type hotTarget struct {
	cappedTarget
	hot atomic.Int64
}

func (c *hotTarget) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if string(bulk.FirstIndex(body)) != "h" {
		return c.cappedTarget.Send(ctx, body, n)
	}
	c.hot.Add(1)
	time.Sleep(10 * time.Millisecond)
	var all []bulk.Refusal
	for i := range n {
		all = append(all, bulk.Refusal{Pos: i, Status: 429})
	}
	return bulk.Result{Refused: all}, nil
}

// TestToCluster_OverloadOfOneIndex: slots of a healthy index are as fast beside one whose index is overloaded as alone, also when it is
// overloaded from the start.
func TestToCluster_OverloadOfOneIndex(t *testing.T) {
	const slots, most, each = 4, 16, 4
	run := func(d time.Duration, slots int, hot bool) (taken, refused int64) {
		synctest.Test(t, func(t *testing.T) {
			to := &hotTarget{cappedTarget: cappedTarget{most: most}}
			flow := throttle.NewFlow(most, 5<<20)
			cluster := engine.ToCluster(to, engine.Limits{Connections: most, Flow: flow})
			recovery := &bulk.Recovery{}
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			var all sync.WaitGroup
			for slot := range slots {
				index := []byte("a")
				if hot && slot == 0 {
					index = []byte("h")
				}
				all.Go(func() {
					out, err := cluster.Open(ctx, cms.ItemID{}, func() error { return nil })
					if err != nil {
						t.Error(err)
						return
					}
					l := bulk.New(t.Context(), bulk.Options{
						Sender: out, Recorder: migrationtest.NoFailures{}, MaxDocs: 1, MaxInFlight: each, Recovery: recovery, StallTimeout: time.Hour,
						Bounds: bulk.Share{Requests: flow, Slots: slots, Recovery: recovery},
					})
					defer l.Abort()
					for n := int64(0); ctx.Err() == nil; n++ {
						_ = l.Add(ctx, &doc.Document{Index: index, ID: fmt.Appendf(nil, "%d-%d", slot, n), Source: []byte("{}"), Ordinal: n})
					}
				})
			}
			all.Wait()
			taken, refused = to.taken.Load(), to.hot.Load()
		})
		return taken, refused
	}
	for _, d := range []time.Duration{20 * time.Second, 3 * time.Minute} {
		alone, _ := run(d, slots-1, false)
		beside, refused := run(d, slots, true)
		if beside < alone*9/10 {
			t.Errorf("%d requests were taken in %v beside an overloaded index, %d without it", beside, d, alone)
		}
		if refused > 300 {
			t.Errorf("%d requests to the overloaded index in %v", refused, d)
		}
	}
}
