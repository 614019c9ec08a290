package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// OrderKind is what an order changes.
type OrderKind string

// The kinds. Resume and drain concern the named nodes, or the fleet without names.
const (
	OrderPause  OrderKind = "pause"
	OrderResume OrderKind = "resume"
	OrderDrain  OrderKind = "drain"
	OrderScale  OrderKind = "scale"
)

// OrderState is what became of an order.
type OrderState string

// The states of orders.
const (
	OrderInForce   OrderState = "in_force"  // stored, and no newer order concerns the same
	OrderReplaced  OrderState = "replaced"  // it was in force until a newer order replaced it
	OrderUnknown   OrderState = "unknown"   // not stored, and its end is not over
	OrderExpired   OrderState = "expired"   // not stored before its end: it never comes into force
	OrderForgotten OrderState = "forgotten" // too old to be kept
)

const (
	// OrderValidity is the time in which an order can come into force. It is longer than an order is waited for.
	OrderValidity = 30 * time.Second

	maxOrders     = 32       // kept
	maxOrderBytes = 64 << 10 // of one, and of all that are kept
	maxIssuer     = 256      // bytes
	// clockSpread is how far the clocks of a cluster's nodes may be apart.
	clockSpread = 2 * time.Second
)

// Order is one order of an operator. Callers set Kind, Nodes, Workers and Who; the rest is set when it is issued.
type Order struct {
	ID       string    `json:"id"`       // holds Ends
	Sequence int64     `json:"sequence"` // grows from order to order of a fleet
	Kind     OrderKind `json:"kind"`
	Nodes    []string  `json:"nodes,omitempty"`   // of resume and drain; none: the fleet
	Workers  *int      `json:"workers,omitempty"` // of scale; nil: each node decides
	Who      string    `json:"who"`
	Issued   time.Time `json:"issued"` // by the store's clock, as Ends
	Ends     time.Time `json:"ends"`   // it comes into force until then or never
	ErrorMs  int64     `json:"clockErrorMs,omitempty"`
}

// UnknownOrderError is returned for an order that was sent to a store that did not answer.
type UnknownOrderError struct {
	Order Order
	err   error
}

// Error returns the id of the order and how to look at it.
func (e *UnknownOrderError) Error() string {
	return fmt.Sprintf("the coordination store does not answer, so it is unknown whether order %s is in force: it can come into force until %s and never afterwards; `rfsctl orders %s` shows which",
		e.Order.ID, e.Order.Ends.UTC().Format(time.RFC3339), e.Order.ID)
}

// Unwrap returns the error of the store.
func (e *UnknownOrderError) Unwrap() error { return e.err }

// SupersededError is returned for an order that was refused because a newer one concerns the same.
type SupersededError struct{ Order, By Order }

// Error names the newer order.
func (e *SupersededError) Error() string {
	return fmt.Sprintf("not %s: order %s (%s by %s) is newer or was given at the same time, and in force; give yours again if it still holds",
		e.Order.Kind, e.By.ID, e.By.Kind, e.By.Who)
}

// Unwrap returns the category.
func (e *SupersededError) Unwrap() error { return fault.ErrRejected }

// Text returns the order as it is given to rfsctl.
func (o Order) Text() string {
	words := append([]string{string(o.Kind)}, o.Nodes...)
	switch {
	case o.Workers != nil:
		words = append(words, strconv.Itoa(*o.Workers))
	case o.Kind == OrderScale:
		words = append(words, "auto")
	}
	return strings.Join(words, " ")
}

func newOrderID(ends time.Time) string {
	return strconv.FormatInt(ends.Unix(), 36) + "-" + strings.ToLower(rand.Text()[:6])
}

// OrderEnd returns the end of the order with an id, or fault.ErrConfig for a text that is no id of an order.
func OrderEnd(id string) (time.Time, error) {
	end, random, _ := strings.Cut(id, "-")
	seconds, err := strconv.ParseInt(end, 36, 64)
	if err != nil || seconds <= 0 || seconds > 1<<36 || len(random) != 6 {
		return time.Time{}, fmt.Errorf("invalid order %.64q: want an id as `rfsctl orders` lists them, such as t5xw8k-m3k7qa: %w", id, fault.ErrConfig)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// concerns reports whether a newer order like o replaces x, or a part of it.
func (o Order) concerns(x Order) bool {
	switch {
	case o.Kind == OrderScale || x.Kind == OrderScale:
		return o.Kind == x.Kind
	case len(o.Nodes) == 0 || len(x.Nodes) == 0:
		return len(o.Nodes) == len(x.Nodes)
	}
	return slices.ContainsFunc(o.Nodes, func(n string) bool { return slices.Contains(x.Nodes, n) })
}

// applied returns what is wanted after the order.
func (o Order) applied(i Intent) Intent {
	i.Drained = slices.Clone(i.Drained)
	switch {
	case o.Kind == OrderScale:
		i.Workers = o.Workers
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
	i.Who = o.Who
	if o.Issued.After(i.When) { // clocks of nodes differ
		i.When = o.Issued
	}
	return i
}

func (o Order) check() error {
	switch {
	case !slices.Contains([]OrderKind{OrderPause, OrderResume, OrderDrain, OrderScale}, o.Kind):
		return fmt.Errorf("invalid order %q: want pause, resume, drain or scale: %w", o.Kind, fault.ErrConfig)
	case len(o.Nodes) > 0 && (o.Kind == OrderPause || o.Kind == OrderScale):
		return fmt.Errorf("%s takes no nodes: drain them by name: %w", o.Kind, fault.ErrConfig)
	case o.Workers != nil && o.Kind != OrderScale:
		return fmt.Errorf("%s takes no number of workers: %w", o.Kind, fault.ErrConfig)
	}
	if size := o.size(); size > maxOrderBytes {
		return fmt.Errorf("the order has %d bytes, more than %d: name fewer nodes at a time: %w", size, maxOrderBytes, fault.ErrConfig)
	}
	return Order{Kind: OrderDrain, Nodes: o.Nodes}.applied(Intent{State: Run, Workers: o.Workers}).check()
}

// size returns the bytes that the order takes in the record.
func (o Order) size() int {
	b, err := json.Marshal(o)
	if err != nil {
		return maxOrderBytes + 1
	}
	return len(b)
}

// Version is the number of the version of the record. The sequence number of each order is above that of the version before it
// was stored, and not above that of each version since.
func (i Intent) Version() int64 { return max(i.Sequence, i.Revision.Seq) }

// order returns the kept order with an id.
func (i Intent) order(id string) (Order, bool) {
	n := slices.IndexFunc(i.Orders, func(o Order) bool { return o.ID == id })
	if n < 0 {
		return Order{}, false
	}
	return i.Orders[n], true
}

// with returns the intent after the order, which is added to those that are kept.
func (i Intent) with(o Order) Intent {
	i = o.applied(i)
	i.Orders = append(slices.Clone(i.Orders), o)
	i.Sequence = o.Sequence
	last := func(kind func(Order) bool) string {
		for _, x := range slices.Backward(i.Orders) {
			if kind(x) {
				return x.ID
			}
		}
		return ""
	}
	state := last(func(x Order) bool { return x.Kind != OrderScale && len(x.Nodes) == 0 })
	number := last(func(x Order) bool { return x.Kind == OrderScale })
	var kept []Order
	bytes := 0
	for _, x := range slices.Backward(i.Orders) {
		size := x.size()
		switch {
		case x.ID == state || x.ID == number:
			kept = append(kept, x)
		case len(kept) < maxOrders && bytes+size <= maxOrderBytes:
			bytes += size
			kept = append(kept, x)
		case x.Ends.After(i.Forgotten):
			i.Forgotten = x.Ends
		}
	}
	slices.Reverse(kept)
	i.Orders = kept
	return i
}

// newer returns the last order with a sequence number above seen that concerns the same as o.
func (i Intent) newer(o Order, seen int64) (Order, bool) {
	for _, x := range slices.Backward(i.Orders) {
		if x.Sequence > seen && o.concerns(x) {
			return x, true
		}
	}
	return Order{}, false
}

// OrderState returns what became of the order with an id. now is a time by the store's clock from before the intent
// was read. An order that is not kept has its id and its end only. It returns fault.ErrConfig for an invalid id.
func (i Intent) OrderState(id string, now time.Time) (Order, OrderState, error) {
	ends, err := OrderEnd(id)
	if err != nil {
		return Order{}, "", err
	}
	if o, ok := i.order(id); ok {
		if i.replaced(o) {
			return o, OrderReplaced, nil
		}
		return o, OrderInForce, nil
	}
	o := Order{ID: id, Ends: ends}
	switch {
	case !now.After(ends.Add(clockSpread)):
		return o, OrderUnknown, nil
	case !ends.After(i.Forgotten):
		return o, OrderForgotten, nil
	}
	return o, OrderExpired, nil
}

// replaced reports whether newer orders concern all that o concerns.
func (i Intent) replaced(o Order) bool {
	if len(o.Nodes) == 0 {
		_, ok := i.newer(o, o.Sequence)
		return ok
	}
	for _, n := range o.Nodes {
		if _, ok := i.newer(Order{Kind: o.Kind, Nodes: []string{n}}, o.Sequence); !ok {
			return false
		}
	}
	return true
}

// Punctual returns i without the orders that were stored after their end, and whether there was none. before is the
// intent as it was still read at the time seen, by the store's clock; an order of which the end was over by then, and which
// is new in i, was stored too late.
func (i Intent) Punctual(before Intent, seen time.Time) (Intent, bool) {
	late := func(o Order) bool {
		return o.Sequence > before.Version() && o.Ends.Add(clockSpread).Before(seen)
	}
	if seen.IsZero() || !slices.ContainsFunc(i.Orders, late) {
		return i, true
	}
	is := before
	for _, o := range i.Orders {
		if o.Sequence > before.Version() && !late(o) {
			is = o.applied(is)
		}
	}
	is.Orders = slices.DeleteFunc(slices.Clone(i.Orders), late)
	is.Sequence, is.Forgotten, is.Revision = i.Sequence, i.Forgotten, i.Revision
	return is, false
}

// Orders reads the orders and the store's clock, from before they were read.
func (s Records) Orders(ctx context.Context) (i Intent, now time.Time, err error) {
	now, maxErr, err := s.leases.Now(ctx)
	if err != nil {
		return i, now, err
	}
	i, err = s.Intent(ctx)
	return i, now.Add(-maxErr), err
}

// Order stores an order and returns it as it was stored, with what is wanted from then on. Errors: fault.ErrConfig for an
// invalid order, *SupersededError when a newer one is in force, *UnknownOrderError when the store did not answer after the
// order was sent, fault.ErrUnavailable when it did not answer before. Except for *UnknownOrderError the order never comes into force.
func (s Records) Order(ctx context.Context, o Order) (Order, Intent, error) {
	ctx, cancel := context.WithTimeout(ctx, OrderValidity)
	defer cancel()
	if len(o.Who) > maxIssuer {
		o.Who = strings.ToValidUTF8(o.Who[:maxIssuer], "")
	}
	if err := o.check(); err != nil {
		return o, Intent{}, err
	}
	i, err := s.replaceable(ctx)
	if err != nil {
		return o, i, notStored(ctx, err)
	}
	now, maxErr, err := s.leases.Now(ctx)
	if err != nil {
		return o, i, notStored(ctx, err)
	}
	o.Issued, o.Ends = now.UTC(), now.UTC().Add(OrderValidity).Truncate(time.Second)
	o.ID, o.ErrorMs = newOrderID(o.Ends), maxErr.Milliseconds()
	return s.storeOrder(ctx, i, o)
}

// notStored is the error of an order that was given up while no write of it was under way.
func notStored(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, fault.ErrUnavailable) {
		return fmt.Errorf("the coordination store does not answer; the order was not stored and will not come into force, give it again: %w", errors.Join(fault.ErrUnavailable, err))
	}
	return err
}

// replaceable reads the intent; one that cannot be understood is replaced.
func (s Records) replaceable(ctx context.Context) (Intent, error) {
	r, err := s.leases.Record(ctx, fleetIntent)
	if errors.Is(err, cms.ErrNotFound) {
		return Intent{State: Run}, nil
	}
	if err != nil {
		return Intent{}, err
	}
	i, err := decodeIntent(r)
	if err != nil {
		i = Intent{State: Run, Revision: r.Revision}
	}
	return i, nil
}

// storeOrder writes the order on the intent i, and after a lost answer or race on what is there then.
func (s Records) storeOrder(ctx context.Context, i Intent, o Order) (Order, Intent, error) {
	var lost error // of a write of which the outcome is not known
	failed := func(i Intent, err error) (Order, Intent, error) {
		if lost == nil {
			return o, i, notStored(ctx, err)
		}
		return o, i, &UnknownOrderError{Order: o, err: errors.Join(fault.ErrUnavailable, lost)}
	}
	for first := i.Version(); ; {
		if x, newer := i.newer(o, first); newer && !x.Issued.Add(time.Duration(x.ErrorMs+o.ErrorMs)*time.Millisecond).Before(o.Issued) {
			return o, i, &SupersededError{Order: o, By: x}
		}
		o.Sequence = i.Version() + 1
		next := i.with(o)
		if err := next.check(); err != nil {
			return o, i, err
		}
		var err error
		if next.Revision, err = s.putIntent(ctx, next, o.Ends); err == nil {
			return o, next, nil
		}
		switch {
		case errors.Is(err, cms.ErrConflict):
		case errors.Is(err, cms.ErrTooLate): // an earlier write of it would have been a conflict
			return o, i, notStored(ctx, fmt.Errorf("%w: %w", err, fault.ErrUnavailable))
		case errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
			lost = err
		default:
			return failed(i, err)
		}
		if serr := s.leases.Pause(ctx, 10*time.Millisecond, 200*time.Millisecond); serr != nil {
			return failed(i, serr)
		}
		if i, err = s.replaceable(ctx); err != nil {
			return failed(i, err)
		}
		if x, stored := i.order(o.ID); stored {
			return x, i, nil
		}
	}
}

// putIntent writes the record under the revision at which it was read, until the end; the zero time: whenever.
func (s Records) putIntent(ctx context.Context, i Intent, end time.Time) (cms.Revision, error) {
	if err := i.check(); err != nil {
		return cms.Revision{}, err
	}
	body, err := json.Marshal(intentBody{Workers: i.Workers, Drained: i.Drained, Who: i.Who, When: i.When.UnixMilli(), Sequence: i.Sequence, Orders: i.Orders, Forgotten: epochMs(i.Forgotten)})
	if err != nil {
		return cms.Revision{}, fmt.Errorf("record %s: %w", fleetIntent, err)
	}
	if len(body) > maxIntent {
		return cms.Revision{}, fmt.Errorf("record %s has %d bytes, more than %d: resume drained nodes first: %w", fleetIntent, len(body), maxIntent, fault.ErrConfig)
	}
	r := cms.Record{ID: fleetIntent, Kind: kindIntent, Revision: i.Revision, Before: epochMs(end), State: string(i.State), CreatedAt: i.created, UpdatedAt: i.When.UnixMilli(), Body: body}
	if r.CreatedAt == 0 {
		r.CreatedAt = r.UpdatedAt
	}
	rev, err := s.items.Store().Put(ctx, r)
	if err != nil {
		return rev, fmt.Errorf("write record %s: %w", fleetIntent, err)
	}
	return rev, nil
}

// Withdraw writes the intent that Punctual returned, so that nodes that start later do not follow a late order.
func (s Records) Withdraw(ctx context.Context, punctual Intent) (Intent, error) {
	rev, err := s.putIntent(ctx, punctual, time.Time{})
	if err != nil {
		return Intent{}, err
	}
	punctual.Revision = rev
	return punctual, nil
}

func epochMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
