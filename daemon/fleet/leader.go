package fleet

import (
	"context"
	"errors"

	"github.com/rfsd/rfsd/rfs/schedule"
)

// electionLoop takes part in leader elections until ctx is done. The leader writes the hints for the whole
// fleet; its loss stops no work.
func (f *Fleet) electionLoop(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.locks.Lead(ctx, "fleet", f.intervals.leaderTTL, f.runAsLeader)
		if err != nil && ctx.Err() == nil {
			f.log.Debug("leader_election_failed", "error", err)
			if f.conf.Clock.Sleep(ctx, f.intervals.lead) != nil {
				return
			}
		}
	}
}

// runAsLeader runs until leadership is lost: it removes expired nodes, publishes the sizes of shards, and proposes plans.
func (f *Fleet) runAsLeader(ctx context.Context) error {
	f.setLeading(true)
	defer f.setLeading(false)
	f.log.Info("leadership_acquired")
	t := &leadership{}
	var shards []schedule.Shard
	f.repeat(ctx, f.intervals.lead, func(ctx context.Context) error {
		err := f.nodes.Expire(ctx, f.intervals.nodeTTL)
		if len(shards) == 0 && f.conf.Shards != nil {
			found, serr := f.conf.Shards(ctx)
			if serr != nil {
				return errors.Join(err, serr)
			}
			shards = found
		}
		return errors.Join(err, f.publish(ctx, shards), f.propose(ctx, t, shards))
	})
	return ctx.Err()
}

func (f *Fleet) setLeading(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = is
}
