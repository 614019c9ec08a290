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

// Leadership is how the nodes that can drive machines agree on one of them: by a lock in the coordination store, with or without gossip.
type Leadership struct {
	Store primitive.Store
	Clock timing.Clock
	TTL   time.Duration          // of the lock: for so long no node drives after its holder was killed
	Every time.Duration          // between two turns, ±25 %
	Loads func() []schedule.Load // of all nodes that this node hears of
}

// lockName is the name of the lock. It is apart from the leader's of the hints: machines that are started need no driver of their own.
const lockName = "scale"

// Run takes turns while this node holds the lock, for which it waits, until ctx is done. Errors are logged once and tried again.
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
				note(s.Turn(ctx, l.Store, l.Loads()))
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
