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

// now returns the time of a clock that is never set, and that advances while the machine sleeps.
func (f *Fleet) now() time.Time { return time.Unix(0, 0).Add(f.conf.Clock.Read().Boot) }

func (f *Fleet) loadInterval(nodes int) time.Duration {
	return max(f.intervals.load, time.Duration(nodes)*loadIntervalPerNode)
}
