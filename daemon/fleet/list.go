package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// advertise updates this node's entry in the node list of the coordination store. If a rate is divided it also counts the live
// nodes of the list, so that a node without gossip uses its share and no more.
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
	if joins { // a node that updates its entry later than this has read the list with this node in it
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

// now returns the time of a clock that is never set and that advances while the machine sleeps.
func (f *Fleet) now() time.Time { return time.Unix(0, 0).Add(f.conf.Clock.Read().Boot) }

// liveNodes returns the nodes of the fleet seen within a duration of the newest one. Processes of an import are listed, too, and are left
// out. Of two with the same address and the same name except for the suffix of each start, the older one has ended: its port is
// in use.
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

// planTTL returns the TTL of a plan. Meanwhile a node has to report the number of the plan it follows.
func (f *Fleet) planTTL(nodes int) time.Duration {
	return max(f.intervals.planTTL, loadTTLFactor*f.loadInterval(nodes))
}

func (f *Fleet) loadInterval(nodes int) time.Duration {
	return max(f.intervals.load, time.Duration(nodes)*loadIntervalPerNode)
}

// Register adds a node without gossip to the node list and returns the number of live nodes, among which the rate is divided.
func Register(ctx context.Context, conf Config) (count int, err error) {
	nodes := primitive.Nodes{Store: conf.Store, Clock: conf.Clock}
	if err := nodes.Advertise(ctx, primitive.Node{Token: conf.Gossip.Name, Workers: conf.Workers(), API: conf.Gossip.Meta.API}); err != nil {
		return 0, err
	}
	all, err := nodes.List(ctx)
	return max(len(liveNodes(all, defaultIntervals.listedTTL)), 1), err
}
