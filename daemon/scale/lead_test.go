package scale

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// counted counts its calls, and fails while its failure is set.
type counted struct {
	calls atomic.Int64
	fails atomic.Bool
}

func (c *counted) Apply(_ context.Context, n int) (int, error) {
	c.calls.Add(1)
	if c.fails.Load() {
		return 0, errors.New("no quota")
	}
	return n, nil
}

// TestLeadership_OneNodeDrives runs two nodes that know each other only through the store: one drives, and the other does after that one
// has ended.
func TestLeadership_OneNodeDrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := boltstore.Open(t)
		var nodes sync.WaitGroup
		run := func(name string) (*counted, func()) {
			driver := &counted{}
			s := &Scaler{Settings: limits(), Driver: driver, Node: name, Log: slog.New(slog.DiscardHandler), Demand: func() Demand { return Demand{Known: true, Items: 4, Bytes: 8 << 30} }}
			l := &Leadership{Store: store, Clock: cmstest.Clock{Start: time.Now()}, TTL: 30 * time.Second, Every: 15 * time.Second, Loads: func() []schedule.Load { return nil }}
			ctx, end := context.WithCancel(t.Context())
			nodes.Go(func() { l.Run(ctx, s) })
			return driver, end
		}
		first, endFirst := run("a")
		time.Sleep(time.Second)
		second, endSecond := run("b")
		time.Sleep(5 * time.Minute)
		if first.calls.Load() < 15 || second.calls.Load() > 0 {
			t.Errorf("%d and %d calls: one node should have driven all the time", first.calls.Load(), second.calls.Load())
		}
		first.fails.Store(true)
		time.Sleep(5 * time.Minute)
		if n := first.calls.Load(); n < 30 {
			t.Errorf("%d calls after the driver started to fail", n)
		}
		endFirst()
		time.Sleep(5 * time.Minute)
		if second.calls.Load() < 15 {
			t.Errorf("the second node drove %d times after the first had ended", second.calls.Load())
		}
		endSecond()
		nodes.Wait()
		if st, err := Read(t.Context(), store); err != nil || st.Leader != "b" {
			t.Errorf("%+v, %v", st, err)
		}
	})
}
