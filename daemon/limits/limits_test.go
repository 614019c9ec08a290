package limits_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/limits"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestLimits_FollowOrders checks that a process sends and reads at the operator's rates, even if its options have no limits, and at the
// rates of its options when the order is withdrawn: as the only process of its store, and with permits.
func TestLimits_FollowOrders(t *testing.T) {
	for _, c := range []struct {
		name string
		o    limits.Options
	}{
		{"alone", limits.Options{Alone: true}},
		{"of a fleet", limits.Options{Slots: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close() //nolint:errcheck // nothing is kept
				o := c.o
				o.MaxReadRate, o.MaxLatency = 1000, time.Second
				o.Reading = throttle.New(o.MaxReadRate)
				in := limits.New(o)
				log := slog.New(slog.DiscardHandler)
				stop := in.Hold(t.Context(), store, "", log)
				orders := session.OrdersOf(cms.New(cms.Config{Store: store, Creator: "test"}))
				_, unwatch, err := orders.Watch(t.Context(), 3*time.Second, in.Follow, log)
				if err != nil {
					t.Fatal(err)
				}
				set := func(name string, value *int64) {
					t.Helper()
					if _, err := orders.Issue(t.Context(), session.Order{Kind: session.OrderSet, Setting: name, Value: value, Who: "ann"}); err != nil {
						t.Fatal(err)
					}
				}
				number := func(n int64) *int64 { return &n }
				has := func(when string, sends, reads int64, latency time.Duration) {
					t.Helper()
					time.Sleep(20 * time.Second)
					if s, r := in.Sending.InUse(), in.Reading.InUse(); s != sends || r != reads || in.Latency() != latency {
						t.Errorf("%s: sends %d, reads %d, latency %v; want %d, %d, %v", when, s, r, in.Latency(), sends, reads, latency)
					}
					if ctx, end := context.WithTimeout(t.Context(), time.Second); sends == 0 {
						if err := in.Sending.Take(ctx, 1<<40); err != nil {
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

// TestLimits_FollowCommands: of the commands of a daemon, the one with the highest number is in effect, whatever the order in which they come.
func TestLimits_FollowCommands(t *testing.T) {
	l := limits.New(limits.Options{MaxRate: 100, MaxReadRate: 100, MaxLatency: time.Second, Reading: throttle.New(100)})
	millis := int64(50)
	for _, c := range []struct {
		name         string
		command      daemon.WorkerCommand
		sends, reads int64
		latency      time.Duration
	}{
		{"a rate", daemon.WorkerCommand{Rate: &daemon.RateCommand{Number: 2, BytesPerSecond: 40}}, 40, 100, time.Second},
		{"an earlier rate", daemon.WorkerCommand{Rate: &daemon.RateCommand{Number: 1, BytesPerSecond: 70}}, 40, 100, time.Second},
		{"a read rate", daemon.WorkerCommand{ReadRate: &daemon.RateCommand{Number: 3, BytesPerSecond: 30}}, 40, 30, time.Second},
		{"an earlier read rate", daemon.WorkerCommand{ReadRate: &daemon.RateCommand{Number: 2, BytesPerSecond: 90}}, 40, 30, time.Second},
		{"a latency", daemon.WorkerCommand{Set: &session.Limits{MaxLatency: &millis}}, 40, 30, 50 * time.Millisecond},
	} {
		l.Apply(c.command)
		if s, r := l.Sending.InUse(), l.Reading.InUse(); s != c.sends || r != c.reads || l.Latency() != c.latency {
			t.Errorf("%s: sends %d, reads %d, latency %s", c.name, s, r, l.Latency())
		}
	}
	if l.RateCommand != 2 || l.ReadCommand != 3 {
		t.Errorf("follows the commands %d and %d", l.RateCommand, l.ReadCommand)
	}
}
