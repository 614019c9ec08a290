package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// electionLoop competes for the leader's lock whenever this node may lead, until ctx is done. The leader writes the hints for the whole
// fleet; its loss stops no work.
func (f *Fleet) electionLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if f.mayLead() {
			if err := f.compete(ctx); err != nil && !errors.Is(err, context.Canceled) {
				f.log.Debug("leader election failed", "error", err)
				f.resignRaft()
			}
		}
		if f.conf.Clock.Sleep(ctx, f.intervals.lead) != nil {
			return
		}
	}
}

// resignRaft transfers Raft's leadership, if this node has it, to another voter, because this node cannot get or keep the leader's lock.
func (f *Fleet) resignRaft() {
	if s := f.hintStore(); s != nil && s.IsLeader() {
		s.Resign()
	}
}

// yieldChecks is the number of consecutive checks with the result that a node may not lead, after which it releases the lock. Raft's
// elections are short.
const yieldChecks = 2

// compete waits for the leader's lock and leads with it, until this node may no longer lead or ctx is done.
func (f *Fleet) compete(ctx context.Context) error {
	eligible, end := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() {
		defer end()
		for refused := 0; refused < yieldChecks; {
			if refused++; f.mayLead() {
				refused = 0
			}
			if f.conf.Clock.Sleep(eligible, f.intervals.lead) != nil {
				return
			}
		}
	})
	err := f.locks.Lead(eligible, "fleet", f.intervals.leaderTTL, f.runAsLeader)
	end()
	checks.Wait()
	return err
}

// mayLead reports whether this node may compete for the leader's lock. While Raft has a leader, only that node may, so that the leader's
// proposals need not be forwarded.
func (f *Fleet) mayLead() bool {
	if s := f.hintStore(); s != nil && s.Leader() != "" && s.Member() {
		return s.IsLeader()
	}
	return !f.quorum()
}

// quorum reports whether gossip shows another node as a voter with a Raft leader.
func (f *Fleet) quorum() bool {
	return slices.ContainsFunc(f.gossip.Members(), func(m gossip.Member) bool { return m.Meta.Quorum && m.Name != f.gossip.Name() })
}

// electionPause returns the time that a node waits in addition to the lock's duration, so that few of the competing nodes try at the same
// time.
func (f *Fleet) electionPause() time.Duration {
	if s := f.hintStore(); s != nil && s.IsLeader() {
		return 0 // only this node competes
	}
	if most := f.conf.Scheduler.Position().Interval(0, schedule.ElectionRate); most > 0 {
		return rand.N(most)
	}
	return 0
}

// runAsLeader runs until leadership is lost: it removes expired nodes, publishes the sizes of shards, and proposes plans.
func (f *Fleet) runAsLeader(ctx context.Context) error {
	f.setLeading(true)
	defer f.setLeading(false)
	f.log.Info("leadership acquired")
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
		return errors.Join(err, f.publish(ctx, shards), f.propose(ctx, t))
	})
	return ctx.Err()
}

func (f *Fleet) setLeading(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = is
}
