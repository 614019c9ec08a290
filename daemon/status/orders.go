package status

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// States of an order: what was read of it in the store, and, of an order that is being given, refused.
const (
	OrderInForce  = string(session.OrderInForce)
	OrderReplaced = string(session.OrderReplaced)
	OrderUnknown  = string(session.OrderUnknown)
	OrderRefused  = "refused" // it never comes into force
)

// Order is an order of an operator and what became of it. An order that is not kept has ID, State and Ends only.
type Order struct {
	ID       string     `json:"id,omitempty"`
	State    string     `json:"state"`             // in_force, replaced, unknown, expired, forgotten, refused
	Kind     string     `json:"kind,omitempty"`    // pause, resume, drain, scale
	Nodes    []string   `json:"nodes,omitempty"`   // of resume and drain; none: the fleet
	Workers  *int       `json:"workers,omitempty"` // of scale; none: each node decides
	By       string     `json:"by,omitempty"`
	Sequence int64      `json:"sequence,omitempty"` // a newer order has a higher one
	Issued   *time.Time `json:"issued,omitempty"`   // by the store's clock
	Ends     *time.Time `json:"ends,omitempty"`     // by the store's clock; it comes into force until then or never
	// NotFollowing are the live nodes that had not reported that they follow an order in force.
	NotFollowing []string `json:"not_following,omitempty"`
}

// OrderOf returns an order in its form of the API.
func OrderOf(o session.Order, state string) Order {
	r := Order{ID: o.ID, State: state, Kind: string(o.Kind), Nodes: o.Nodes, Workers: o.Workers, By: o.Who, Sequence: o.Sequence}
	if !o.Issued.IsZero() {
		r.Issued = &o.Issued
	}
	if !o.Ends.IsZero() {
		r.Ends = &o.Ends
	}
	return r
}

// ReadOrders reads the orders that the store keeps, newest first, or the one with an id. It returns fault.ErrConfig for an
// invalid id.
func ReadOrders(ctx context.Context, c *cms.Coordinator, id string) ([]Order, error) {
	if id != "" {
		if _, err := session.OrderEnd(id); err != nil {
			return nil, err
		}
	}
	i, now, err := session.Of(c).Orders(ctx)
	if err != nil {
		return nil, err
	}
	ids := []string{id}
	if id == "" {
		ids = ids[:0]
		for n := len(i.Orders) - 1; n >= 0; n-- {
			ids = append(ids, i.Orders[n].ID)
		}
	}
	all := make([]Order, 0, len(ids))
	for _, id := range ids {
		o, state, err := i.OrderState(id, now)
		if err != nil {
			return nil, err
		}
		all = append(all, OrderOf(o, string(state)))
	}
	return all, nil
}
