package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// OrderKind is the kind of change that an order makes.
type OrderKind string

// The kinds. Resume and drain apply to the named nodes, or without names to the fleet.
const (
	OrderPause  OrderKind = "pause"
	OrderResume OrderKind = "resume"
	OrderDrain  OrderKind = "drain"
	OrderScale  OrderKind = "scale"
	OrderSet    OrderKind = "set"
)

// maxIssuer limits Order.Who, in bytes.
const maxIssuer = 256

// Order is a change of the intent by an operator.
type Order struct {
	Kind    OrderKind
	Nodes   []string // of resume and drain; none: the fleet
	Workers *int     // of scale; nil: each node decides
	Setting string   // of set: MaxRate, MaxReadRate or MaxLatency
	Value   *int64   // of set, in the setting's unit; nil: the options apply
	Who     string
}

// ErrOrderUnknown means that an order was sent to a store that did not answer.
var ErrOrderUnknown = fmt.Errorf("the coordination store does not answer, so it is unknown whether the order is in force; `rfsctl status` shows it later, and the next order that is stored rules out that this one comes into force afterwards: %w", fault.ErrUnavailable)

// subject returns the subject that the order changes, and the subject of contradicting orders.
func (o Order) subject() (own, against string) {
	switch {
	case o.Kind == OrderScale:
		return "workers", "workers"
	case o.Kind == OrderSet:
		return o.Setting, o.Setting
	case len(o.Nodes) == 0:
		return "state", "state"
	case o.Kind == OrderDrain:
		return "drained", "resumed"
	}
	return "resumed", "drained"
}

// contradicted reports whether a contradicting order was stored after the revision since.
func (o Order) contradicted(is Intent, since cms.Revision) bool {
	_, against := o.subject()
	replaced, ok := is.Replaced[against]
	return ok && replaced >= since.Seq
}

// applied returns the intent after the order.
func (o Order) applied(i Intent) Intent {
	i.Drained, i.Replaced = slices.Clone(i.Drained), maps.Clone(i.Replaced)
	if i.Replaced == nil {
		i.Replaced = map[string]int64{}
	}
	own, _ := o.subject()
	i.Replaced[own], i.Who = i.Revision.Seq, o.Who
	switch {
	case o.Kind == OrderScale:
		i.Workers = o.Workers
	case o.Kind == OrderSet:
		if value, _ := i.Set.value(o.Setting); value != nil {
			*value = o.Value
		}
	case o.Kind == OrderPause:
		i.State = Pause
	case o.Kind == OrderResume && len(o.Nodes) == 0:
		i.State = Run
	case o.Kind == OrderDrain && len(o.Nodes) == 0:
		i.State = Drain
	case o.Kind == OrderResume:
		i.Drained = slices.DeleteFunc(i.Drained, func(n string) bool { return slices.Contains(o.Nodes, n) })
	case o.Kind == OrderDrain:
		i.Drained = append(i.Drained, o.Nodes...)
		slices.Sort(i.Drained)
		i.Drained = slices.Compact(i.Drained)
	}
	return i
}

func (o Order) check() error {
	switch {
	case !slices.Contains([]OrderKind{OrderPause, OrderResume, OrderDrain, OrderScale, OrderSet}, o.Kind):
		return fmt.Errorf("invalid order %q: want pause, resume, drain, scale or set: %w", o.Kind, fault.ErrConfig)
	case len(o.Nodes) > 0 && o.Kind != OrderResume && o.Kind != OrderDrain:
		return fmt.Errorf("%s takes no nodes: drain them by name: %w", o.Kind, fault.ErrConfig)
	case o.Workers != nil && o.Kind != OrderScale:
		return fmt.Errorf("%s takes no number of workers: %w", o.Kind, fault.ErrConfig)
	}
	i := Intent{State: Run, Workers: o.Workers, Drained: o.Nodes}
	value, _ := i.Set.value(o.Setting)
	switch {
	case o.Kind == OrderSet && value == nil:
		return fmt.Errorf("%q cannot be set while the work runs: want %s: %w", o.Setting, strings.Join(limitNames, ", "), fault.ErrConfig)
	case o.Kind == OrderSet:
		*value = o.Value
	case o.Setting != "" || o.Value != nil:
		return fmt.Errorf("%s takes no setting: %w", o.Kind, fault.ErrConfig)
	}
	return i.check()
}

// Issue changes the intent by one conditional write and returns it. It returns fault.ErrConfig for an invalid order, fault.ErrRejected if a
// contradicting order was stored meanwhile, ErrOrderUnknown if the store did not answer after the order was sent, and fault.ErrUnavailable
// if it did not answer before. Except with ErrOrderUnknown the order is not in force and never will be.
func (s Orders) Issue(ctx context.Context, o Order) (Intent, error) {
	if len(o.Who) > maxIssuer {
		o.Who = strings.ToValidUTF8(o.Who[:maxIssuer], "")
	}
	if err := o.check(); err != nil {
		return Intent{}, err
	}
	now, _, err := s.leases.Now(ctx)
	if err != nil {
		return Intent{}, unfinished(ctx, false, err)
	}
	i, err := s.replaceable(ctx)
	if err != nil {
		return Intent{}, unfinished(ctx, false, err)
	}
	lost := false // a write was sent, and its outcome is unknown
	for first := i.Revision; ; {
		next := o.applied(i)
		next.When = now
		if err := next.check(); err != nil {
			return Intent{}, err
		}
		next.Revision, err = s.put(ctx, next)
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, cms.ErrConflict):
		case errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
			lost = true
		case !lost:
			return Intent{}, err
		}
		if err = s.leases.Pause(ctx, 10*time.Millisecond, 200*time.Millisecond); err != nil {
			return Intent{}, unfinished(ctx, lost, err)
		}
		is, err := s.replaceable(ctx)
		switch {
		case err != nil:
			return Intent{}, unfinished(ctx, lost, err)
		case is.Revision == i.Revision:
			continue // a lost write may still arrive; it then conflicts with the next one
		case o.applied(is).Same(is):
			return is, nil
		case o.contradicted(is, first):
			return Intent{}, fmt.Errorf("not %s: an order to the contrary was stored at the same time, and the last order is by %s; give yours again if it still holds: %w", o.Kind, is.Who, fault.ErrRejected)
		}
		i = is
	}
}

// unfinished returns the error of an order that was given up. lost means that its write may still arrive.
func unfinished(ctx context.Context, lost bool, err error) error {
	switch {
	case lost:
		return fmt.Errorf("%w: %w", ErrOrderUnknown, err)
	case ctx.Err() != nil || errors.Is(err, fault.ErrUnavailable):
		return fmt.Errorf("the coordination store does not answer; the order was not stored and will not come into force, give it again: %w", errors.Join(fault.ErrUnavailable, err))
	}
	return err
}

// replaceable reads the intent. An undecodable intent is returned as Run, to be replaced.
func (s Orders) replaceable(ctx context.Context) (Intent, error) {
	r, err := s.leases.Record(ctx, fleetIntent)
	if errors.Is(err, cms.ErrNotFound) {
		return Intent{State: Run}, nil
	}
	if err != nil {
		return Intent{}, err
	}
	i, _ := decodeIntent(r) // the order overwrites it
	return i, nil
}
