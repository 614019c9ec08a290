package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

const (
	// intentTimeout limits the write of an order, for which the operator's request waits. It is shorter than session.OrderValidity.
	intentTimeout = 10 * time.Second
	// followTimeout is the time that the response to an order waits for the nodes to follow it.
	followTimeout  = 2 * time.Second
	followInterval = 50 * time.Millisecond
	// ordersTimeout limits a read of the orders; clients wait longer.
	ordersTimeout = 4 * time.Second
)

// Order stores an order (Kind, Nodes, Workers and By), applies it here, and waits up to followTimeout for the other nodes.
// With an error its state is unknown or refused. Errors: fault.ErrConfig for an invalid order, such as the name of a node that
// does not live; fault.ErrRejected if a newer order is in force; fault.ErrUnavailable if the store does not answer.
func (d *Daemon) Order(ctx context.Context, o status.Order) (status.Order, error) {
	o.State = status.OrderRefused
	store, err := d.store.coordinator()
	if err != nil {
		return o, err
	}
	if err := d.checkNodes(o); err != nil {
		return o, err
	}
	write, cancel := context.WithTimeout(ctx, intentTimeout)
	defer cancel()
	stored, i, err := session.Of(store).Order(write, session.Order{Kind: session.OrderKind(o.Kind), Nodes: o.Nodes, Workers: o.Workers, Who: o.By})
	var unknown *session.UnknownOrderError
	switch {
	case errors.As(err, &unknown):
		return status.OrderOf(unknown.Order, status.OrderUnknown), err
	case err != nil:
		return o, err
	}
	d.apply(i)
	if d.conf.Peers != nil {
		d.conf.Peers.IntentChanged()
	}
	result := status.OrderOf(stored, status.OrderInForce)
	result.NotFollowing = d.waitForFollowers(ctx, stored.Sequence)
	return result, nil
}

// checkNodes returns fault.ErrConfig if a node to drain does not live. Without gossip every name is accepted.
func (d *Daemon) checkNodes(o status.Order) error {
	if o.Kind != string(session.OrderDrain) || d.conf.Fleet == nil {
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
			return fmt.Errorf("no live node is called %s: there are %s: %w", n, strings.Join(live[:min(len(live), 20)], ", "), fault.ErrConfig)
		}
	}
	return nil
}

// waitForFollowers blocks until all live nodes follow the order with a sequence number, ctx is done, or followTimeout is
// over. It returns the nodes that do not follow it.
func (d *Daemon) waitForFollowers(ctx context.Context, sequence int64) []string {
	end := time.NewTimer(followTimeout)
	defer end.Stop()
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		missing := d.notFollowing(sequence)
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-end.C:
			return missing
		case <-ctx.Done():
			return missing
		}
	}
}

// notFollowing returns the live nodes that have not reported that they follow the order with a sequence number, sorted.
func (d *Daemon) notFollowing(sequence int64) []string {
	d.mu.Lock()
	own := d.followed()
	d.mu.Unlock()
	var missing []string
	if own < sequence {
		missing = append(missing, d.conf.Name)
	}
	if d.conf.Fleet != nil {
		for _, n := range d.conf.Fleet.Nodes() {
			if n.Name != d.conf.Name && n.Order < sequence {
				missing = append(missing, n.Name)
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// followed returns the version of the intent that the node follows, which is at least the sequence number of each order in it.
func (d *Daemon) followed() int64 {
	if !d.known {
		return 0
	}
	return d.intent.Version()
}

// Orders reads the orders in the store, newest first, or the one with an id.
func (d *Daemon) Orders(ctx context.Context, id string) ([]status.Order, error) {
	store, err := d.store.coordinator()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ordersTimeout)
	defer cancel()
	all, err := status.ReadOrders(ctx, store, id)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the coordination store does not answer within %v: %w", ordersTimeout, fault.ErrUnavailable)
	}
	for n, o := range all {
		if o.State == status.OrderInForce {
			all[n].NotFollowing = d.notFollowing(o.Sequence)
		}
	}
	return all, err
}

// followIntent applies an intent; begin is the time when reading it started. Orders in it that were stored after their
// end are withdrawn instead, since a store that runs no scripts does not reject them.
func (d *Daemon) followIntent(ctx context.Context, store *cms.Coordinator, i session.Intent, begin time.Time) error {
	d.mu.Lock()
	before, seen, known := d.intent, d.intentSeen, d.known
	d.mu.Unlock()
	if known {
		punctual, ok := i.Punctual(before, seen)
		if !ok {
			d.log.Warn("late_order_withdrawn", "state", i.State, "workers", i.Workers, "by", i.Who, "kept_state", punctual.State)
			var err error
			i, err = session.Of(store).Withdraw(ctx, punctual)
			switch {
			case errors.Is(err, cms.ErrConflict): // another node has done it, or there is a newer order: it is read next
				return nil
			case err != nil:
				return fmt.Errorf("withdraw a late order: %w", err)
			}
		}
	}
	d.apply(i)
	d.mu.Lock()
	if d.lastRead.migration != nil {
		d.intentSeen = begin.Add(d.lastRead.offset)
	}
	d.mu.Unlock()
	return nil
}
