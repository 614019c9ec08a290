package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// advertise writes this node into the list of the coordination store (seed 004). Where a rate is divided it counts who lives by
// the list, too: a node that gossip does not reach still has its part, and no more.
func (f *Fleet) advertise(ctx context.Context) error {
	at := f.now()
	err := f.nodes.Advertise(ctx, primitive.Node{
		Token: f.gossip.Name(), Workers: f.conf.Workers(), Gossip: f.gossip.Address(), API: f.conf.Gossip.Meta.API,
	})
	if err != nil || f.conf.MaxRate == 0 {
		return err
	}
	now, maxErr, err := f.conf.Store.Now(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	joins := f.follower.ListingExpired(at)
	f.mu.Unlock()
	if joins { // who is in the list again later has read it with this node in it
		f.listedSince = now.Add(2 * maxErr).UnixMilli()
	}
	all, err := f.nodes.List(ctx)
	if err != nil {
		return err
	}
	nodes := liveNodes(all, f.intervals.listedTTL)
	counted := true
	for _, n := range nodes {
		counted = counted && (n.Token == f.gossip.Name() || n.Seen > f.listedSince)
	}
	life, plans := f.planTTL(len(nodes)), false
	if f.isUncounted() {
		_, s, err := f.readSummary(ctx)
		if err != nil {
			return err
		}
		plans = now.Add(-2*maxErr).UnixMilli() <= s.Divided+schedule.PlanExpiry(life).Milliseconds()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listedNodes, f.follower.PlanTTL = len(nodes), life
	f.follower.ObserveList(at, f.now(), len(nodes), counted, plans)
	return nil
}

func (f *Fleet) isUncounted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.follower.Joined(f.now())
}

// now is an instant by a clock that nobody sets and that goes on while the machine sleeps.
func (f *Fleet) now() time.Time { return time.Unix(0, 0).Add(f.conf.Clock.Read().Boot) }

// liveNodes are the nodes of the fleet that were seen lately; processes of an import are on the list, too, and none of them. Of
// two that are reached at the same address and have the same name but for what each start of a node adds, the older one is gone: its
// port is taken.
func liveNodes(all []primitive.Node, within time.Duration) (nodes []primitive.Node) {
	newest, last := int64(0), map[string]int64{}
	for _, n := range all {
		newest = max(newest, n.Seen)
		last[hostKey(n)] = max(last[hostKey(n)], n.Seen)
	}
	for _, n := range all {
		if n.Task == "" && newest-n.Seen <= within.Milliseconds() && last[hostKey(n)] == n.Seen {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func hostKey(n primitive.Node) string {
	if i := strings.LastIndexByte(n.Token, '-'); i > 0 && n.Gossip != "" {
		return n.Token[:i] + " " + n.Gossip
	}
	return n.Token
}

// planTTL is how long a plan lives: a node has to name the one it follows meanwhile.
func (f *Fleet) planTTL(nodes int) time.Duration {
	return max(f.intervals.planTTL, loadTTLFactor*f.loadInterval(nodes))
}

func (f *Fleet) loadInterval(nodes int) time.Duration {
	return max(f.intervals.load, time.Duration(nodes)*loadIntervalPerNode)
}

// Register writes a node that cannot take part in gossip into the list, and says how many live by it: they share the rate.
func Register(ctx context.Context, conf Config) (count int, err error) {
	nodes := primitive.Nodes{Store: conf.Store, Clock: conf.Clock}
	if err := nodes.Advertise(ctx, primitive.Node{Token: conf.Gossip.Name, Workers: conf.Workers(), API: conf.Gossip.Meta.API}); err != nil {
		return 0, err
	}
	all, err := nodes.List(ctx)
	return max(len(liveNodes(all, defaultIntervals.listedTTL)), 1), err
}
