package fleet

import "context"

// scaleLoop drives the machines of the fleet while this node is the leader of those that can, until ctx is done. That lock is
// apart from the leader's of the hints: machines that are started need no driver of their own.
func (f *Fleet) scaleLoop(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.locks.Lead(ctx, "scale", f.intervals.leaderTTL, func(ctx context.Context) error {
			f.log.Info("scaler_leadership_acquired")
			f.repeat(ctx, f.intervals.lead, func(ctx context.Context) error {
				f.mu.Lock()
				own := f.own
				f.mu.Unlock()
				loads := f.loads(own)
				return f.conf.Scale(ctx, loads)
			})
			return ctx.Err()
		})
		if err != nil && ctx.Err() == nil {
			f.log.Debug("leader_election_failed", "error", err)
			if f.conf.Clock.Sleep(ctx, f.intervals.lead) != nil {
				return
			}
		}
	}
}
