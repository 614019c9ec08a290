package scale

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Leadership selects one of the nodes that can drive machines, by a lock in the coordination store, with or without gossip.
type Leadership struct {
	Store primitive.Store
	Clock timing.Clock
	TTL   time.Duration          // of the lock: after its holder is killed, no node drives for this time
	Every time.Duration          // between two rounds, ±25 %
	Loads func() []schedule.Load // of all nodes that this node knows
}

// lockName is the name of the lock. It differs from the lock for the hints' leader, because machines that are started need no driver of
// their own.
const lockName = "scale"

// Run waits for the lock and runs rounds while this node holds it, until ctx is done. Errors are logged once and retried.
func (l *Leadership) Run(ctx context.Context, s *Scaler) {
	locks := primitive.Locks{Store: l.Store, Clock: l.Clock}
	failed := false
	note := func(err error) {
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failed = false
		case failed:
			s.Log.Debug("scaler round failed", "error", fault.Text(err))
		default:
			failed = true
			s.Log.Warn("scaler round failed", "error", fault.Text(err), "next_try_in", l.Every)
		}
	}
	for ctx.Err() == nil {
		err := locks.Lead(ctx, lockName, l.TTL, func(ctx context.Context) error {
			s.Log.Info("scaler leadership acquired")
			for {
				note(s.Reconcile(ctx, l.Store, l.Loads()))
				if err := l.Clock.Sleep(ctx, l.Every*3/4+rand.N(l.Every/2)); err != nil {
					return err
				}
			}
		})
		note(err)
		if err != nil && l.Clock.Sleep(ctx, l.Every) != nil {
			return
		}
	}
}
