package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// electionLoop competes for the leader's lock whenever this node may lead, until ctx is done. The leader writes the hints for
// the whole fleet; its loss stops no work.
func (f *Fleet) electionLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if f.mayLead() {
			err := f.compete(ctx)
			if err != nil && !errors.Is(err, context.Canceled) {
				f.log.Debug("leader_election_failed", "error", err)
			}
		}
		if f.conf.Clock.Sleep(ctx, f.intervals.lead) != nil {
			return
		}
	}
}

// compete waits for the leader's lock and leads with it, until this node may not lead any more or ctx is done.
func (f *Fleet) compete(ctx context.Context) error {
	eligible, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		for f.mayLead() && f.conf.Clock.Sleep(eligible, f.intervals.lead) == nil {
		}
		end()
	})
	err := f.locks.Lead(eligible, "fleet", f.intervals.leaderTTL, f.runAsLeader)
	end()
	beside.Wait()
	return err
}

// mayLead reports whether this node competes for the leader's lock: while Raft has a quorum, only its voters do.
func (f *Fleet) mayLead() bool {
	voters, own := f.quorum()
	return own || voters == 0
}

// quorum returns the number of voters that have a Raft leader, as gossip reports them, and whether this node is one.
func (f *Fleet) quorum() (voters int, own bool) {
	if s := f.hintStore(); s != nil && s.Leader() != "" && s.Member() {
		voters, own = 1, true
	}
	for _, m := range f.gossip.Members() {
		if m.Meta.Quorum && m.Name != f.gossip.Name() {
			voters++
		}
	}
	return voters, own
}

// electionPause returns the time that a node waits in addition to the lock's duration, so that few of all competing nodes try at the same time.
func (f *Fleet) electionPause() time.Duration {
	candidates, _ := f.quorum()
	if candidates == 0 {
		candidates = f.conf.Scheduler.Position().Nodes
	}
	if most := (schedule.NodePosition{Nodes: candidates}).Interval(0, schedule.ElectionRate); most > 0 {
		return rand.N(most)
	}
	return 0
}

// runAsLeader runs until leadership is lost: it removes expired nodes, publishes the sizes of shards, and proposes plans.
func (f *Fleet) runAsLeader(ctx context.Context) error {
	f.setLeading(true)
	defer f.setLeading(false)
	f.log.Info("leadership_acquired")
	t := &leadership{}
	var shards []schedule.Shard
	f.repeat(ctx, f.intervals.lead, func(ctx context.Context) error {
		f.takeRaft()
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

// takeRaft asks Raft's leader to transfer its leadership to this node, which holds the leader's lock: then what it proposes does
// not travel twice. It works as well without.
func (f *Fleet) takeRaft() {
	s := f.hintStore()
	if s == nil || s.IsLeader() || !s.Member() {
		return
	}
	if err := s.TakeLeadership(); err != nil {
		f.log.Debug("raft_leadership_not_taken", "error", err)
	}
}

func (f *Fleet) setLeading(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = is
}
