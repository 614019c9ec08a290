package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

const (
	// orderStoreTimeout limits the write of an order while the operator's request waits.
	orderStoreTimeout = 10 * time.Second
	// followTimeout is the time that the response to an order waits for the nodes to follow it.
	followTimeout  = 2 * time.Second
	followInterval = 50 * time.Millisecond
)

// Order stores an order, applies it here, and waits up to followTimeout for the other nodes. It returns the errors of session.Orders.Issue,
// and fault.ErrConfig if a node to drain is not alive.
func (d *Daemon) Order(ctx context.Context, o session.Order) (status.Ordered, error) {
	store, err := d.store.coordinator()
	if err != nil {
		return status.Ordered{}, err
	}
	if err := d.checkNodes(o); err != nil {
		return status.Ordered{}, err
	}
	write, cancel := context.WithTimeout(ctx, orderStoreTimeout)
	defer cancel()
	i, err := session.OrdersOf(store).Issue(write, o)
	if err != nil {
		return status.Ordered{}, err
	}
	d.apply(i)
	if d.conf.Peers != nil {
		d.conf.Peers.IntentChanged()
	}
	return status.Ordered{Intent: progress.NewIntent(i), NotFollowing: d.waitForFollowers(ctx, i.Revision.Seq)}, nil
}

// checkNodes returns fault.ErrConfig if a node to drain is not alive. Without gossip it accepts every name.
func (d *Daemon) checkNodes(o session.Order) error {
	if o.Kind != session.OrderDrain || d.conf.Fleet == nil {
		return nil
	}
	live := []string{d.conf.Name}
	for _, n := range d.conf.Fleet.Nodes() {
		live = append(live, n.Name)
	}
	slices.Sort(live)
	live = slices.Compact(live)
	for _, n := range o.Nodes {
		if !slices.Contains(live, n) {
			return fmt.Errorf("no live node is named %s, only %s: %w", n, strings.Join(live[:min(len(live), 20)], ", "), fault.ErrConfig)
		}
	}
	return nil
}

// waitForFollowers blocks until all live nodes follow a version of the intent, ctx is done, or followTimeout is over. It returns the nodes
// that do not follow it.
func (d *Daemon) waitForFollowers(ctx context.Context, version int64) []string {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	for {
		missing := d.notFollowing(version)
		if len(missing) == 0 || wait.For(ctx, followInterval) != nil {
			return missing
		}
	}
}

// notFollowing returns the other live nodes that have not reported that they follow a version of the intent, sorted by name.
func (d *Daemon) notFollowing(version int64) []string {
	if d.conf.Fleet == nil {
		return nil
	}
	var missing []string
	for _, n := range d.conf.Fleet.Nodes() {
		if n.Name != d.conf.Name && n.Order < version {
			missing = append(missing, n.Name)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}
