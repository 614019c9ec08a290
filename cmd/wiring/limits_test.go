package wiring

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// TestLimits_FollowOrders: a process sends and reads as fast as an operator has set, also where its options have no limit, and as fast as
// its options say when the order is taken back: alone with its store, and with a permit.
func TestLimits_FollowOrders(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"alone", Options{coordinatorFile: "c.db"}},
		{"of a fleet", Options{Target: target.Config{URL: "http://127.0.0.1:1"}, Slots: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close() //nolint:errcheck // nothing is kept
				o := c.o
				o.maxReadRate, o.maxLatency = 1000, time.Second
				o.reading = throttle.New(o.maxReadRate)
				in := NewResources(o)
				log := slog.New(slog.DiscardHandler)
				stop := in.holdPermits(t.Context(), o, store, log)
				orders := session.OrdersOf(cms.New(cms.Config{Store: store, Creator: "test"}))
				_, unwatch, err := orders.Watch(t.Context(), 3*time.Second, in.Follow, log)
				if err != nil {
					t.Fatal(err)
				}
				set := func(name string, value *int64) {
					t.Helper()
					if _, err := orders.Give(t.Context(), session.Order{Kind: session.OrderSet, Setting: name, Value: value, Who: "ann"}); err != nil {
						t.Fatal(err)
					}
				}
				number := func(n int64) *int64 { return &n }
				has := func(when string, sends, reads int64, latency time.Duration) {
					t.Helper()
					time.Sleep(20 * time.Second)
					if s, r := in.bucket.InUse(), in.reading.InUse(); s != sends || r != reads || in.latency() != latency {
						t.Errorf("%s: sends %d, reads %d, latency %v; want %d, %d, %v", when, s, r, in.latency(), sends, reads, latency)
					}
					if ctx, end := context.WithTimeout(t.Context(), time.Second); sends == 0 {
						if err := in.bucket.Take(ctx, 1<<40); err != nil {
							t.Errorf("%s: sending has no limit: %v", when, err)
						}
						end()
					} else {
						end()
					}
				}
				has("the options", 0, 1000, time.Second)
				set(session.MaxRate, number(500))
				set(session.MaxReadRate, number(200))
				set(session.MaxLatency, number(50))
				has("as set", 500, 200, 50*time.Millisecond)
				set(session.MaxReadRate, number(3000))
				set(session.MaxLatency, number(0))
				has("more", 500, 3000, 0)
				for _, name := range []string{session.MaxRate, session.MaxReadRate, session.MaxLatency} {
					set(name, nil)
				}
				has("the options again", 0, 1000, time.Second)
				unwatch()
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
