package fleet

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// advertise updates this node's entry in the node list of the coordination store.
func (f *Fleet) advertise(ctx context.Context) error {
	return f.nodes.Advertise(ctx, primitive.Node{
		Token: f.gossip.Name(), Workers: f.conf.Workers(), Gossip: f.gossip.Address(), API: f.conf.Gossip.Meta.API,
	})
}

// RateLimit returns the part of a rate for the nodes that hold permits. Those of the former release divide it by the node list,
// where they leave an equal part to each node that does not follow their leader: to all of the nodes with permits.
func (f *Fleet) RateLimit(rate int64) int64 {
	all, former := int64(0), int64(0)
	for _, m := range f.gossip.Members() {
		if all++; !m.Meta.Permits && m.Name != f.gossip.Name() {
			former++
		}
	}
	if former == 0 {
		return rate
	}
	return rate / all * (all - former)
}

// now returns the time of a clock that is never set and that advances while the machine sleeps.
func (f *Fleet) now() time.Time { return time.Unix(0, 0).Add(f.conf.Clock.Read().Boot) }

func (f *Fleet) loadInterval(nodes int) time.Duration {
	return max(f.intervals.load, time.Duration(nodes)*loadIntervalPerNode)
}
