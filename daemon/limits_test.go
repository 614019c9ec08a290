package daemon

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestDaemon_LimitsAreSet: a limit that an operator sets overrides the option of a node until it is removed, for running workers and for a
// node that starts later, and is shown.
func TestDaemon_LimitsAreSet(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool // nodes divide the limit
	}{{"of a node that has the whole rate", false}, {"of a fleet", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held primitive.Spender
				hold := func(ctx context.Context, s primitive.Spender) error {
					held = s
					<-ctx.Done()
					return nil
				}
				conf := Config{Workers: 2, Send: Limit{Most: 8000}}
				if c.shared {
					conf.Send.Hold, conf.Read.Hold = hold, func(ctx context.Context, _ primitive.Spender) error { <-ctx.Done(); return nil }
				}
				bolt := boltstore.Open(t)
				n := nodeOn(t, bolt, conf)
				forever := func() time.Duration { return time.Hour }
				settle := func(n *node) {
					time.Sleep(time.Second)
					synctest.Wait()
					if c.shared { // as the holder of the permit does
						limit := held.Limit()
						if limit == 0 {
							limit = primitive.Unlimited
						}
						held.Allow(limit, forever)
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				set := func(name string, value *int64) {
					t.Helper()
					give(t, n, session.Order{Kind: session.OrderSet, Setting: name, Value: value, Who: "ann"})
					settle(n)
				}
				told := func(n *node, when string, rate int64, latency *int64, shown string) {
					t.Helper()
					for _, w := range n.starter.living() {
						_, _, commands := w.read()
						var last *session.Limits
						for _, o := range commands {
							if o.Set != nil {
								last = o.Set
							}
						}
						if got := rateTold(w, sends); got != rate {
							t.Errorf("%s: a worker was told %d bytes per second, want %d", when, got, rate)
						}
						if last == nil || (last.MaxLatency == nil) != (latency == nil) || latency != nil && *last.MaxLatency != *latency {
							t.Errorf("%s: a worker was told %+v", when, last)
						}
					}
					if got := n.Status(t.Context()).Migration.Intent.Set.String(); got != shown {
						t.Errorf("%s: the status has %q, want %q", when, got, shown)
					}
				}
				number := func(n int64) *int64 { return &n }
				settle(n)
				told(n, "at first", 4000, nil, "")
				set("max-rate", number(2<<20))
				told(n, "a higher rate", 1<<20, nil, "max-rate 2MiB")
				set("target-max-latency", number(500))
				told(n, "a latency, too", 1<<20, number(500), "max-rate 2MiB, target-max-latency 500ms")
				set("max-rate", number(0))
				told(n, "no limit", primitive.Unlimited, number(500), "max-rate 0, target-max-latency 500ms")
				set("max-rate", number(1024))
				told(n, "a limit again", 512, number(500), "max-rate 1KiB, target-max-latency 500ms")
				if events, _ := n.Events(t.Context(), 0); !slices.ContainsFunc(events, func(e status.Event) bool { return e.Detail == "set max-rate 2MiB by ann" }) {
					t.Errorf("no event of it in %+v", events)
				}
				later := nodeOn(t, bolt, conf)
				settle(later)
				told(later, "a node that starts later", 512, number(500), "max-rate 1KiB, target-max-latency 500ms")
				if err := later.stop(); err != nil {
					t.Error(err)
				}
				set("max-rate", nil)
				set("target-max-latency", nil)
				if !c.shared {
					told(n, "the options again", 4000, nil, "")
				}
				if err := n.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
