package follow_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestDriver_AnOutageEndsInAPause: a driver that starts while the fleet is paused carries a cut-over on whose outage has started, tries
// again after failures, and starts neither a round nor a cut-over that waits.
func TestDriver_AnOutageEndsInAPause(t *testing.T) {
	for _, state := range []session.CutoverState{session.CutoverOrdered, session.CutoverBlocked, session.CutoverReturning, session.CutoverFinishing} {
		for _, order := range []session.OrderKind{session.OrderPause, session.OrderDrain} {
			t.Run(fmt.Sprint(state, order), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					cutovers := session.CutoversOf(f.root())
					if _, err := session.RoundsOf(f.root()).Start(t.Context(), session.Round{Snapshot: "made-0"}); err != nil {
						t.Fatal(err)
					}
					is, err := cutovers.Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "ann")
					if err != nil {
						t.Fatal(err)
					}
					if is, err = cutovers.Move(t.Context(), is, func(x *session.Cutover, _ int64) { x.State = state }); err != nil {
						t.Fatal(err)
					}
					if _, err := session.OrdersOf(f.root()).Issue(t.Context(), session.Order{Kind: order}); err != nil {
						t.Fatal(err)
					}
					calls, rounds := 0, 0
					var first, last time.Time
					d := f.driver(f.root())
					d.Round = func(context.Context) (bool, error) {
						rounds++
						return true, nil
					}
					d.CutOver = func(ctx context.Context) (bool, error) {
						if last = time.Now(); calls == 0 {
							first = last
						}
						if calls++; calls < 3 {
							return false, fault.ErrUnavailable
						}
						_, err := cutovers.Move(ctx, is, func(x *session.Cutover, _ int64) { x.State = session.CutoverReturned })
						return false, err
					}
					ctx, end := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						d.Run(ctx)
					}()
					time.Sleep(time.Minute)
					want := 3
					if state == session.CutoverOrdered {
						want = 0
					}
					if calls != want || rounds > 0 {
						t.Errorf("the cut-over was carried on %d times, want %d; %d rounds", calls, want, rounds)
					}
					if took := last.Sub(first); want > 0 && took < 5*time.Second {
						t.Errorf("three attempts within %s", took)
					}
					end()
					<-ended
				})
			})
		}
	}
}
