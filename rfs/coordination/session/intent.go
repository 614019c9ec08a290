package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// FleetState is what the operator wants of all workers.
type FleetState string

// The states. Pause and drain hand every lease off, which is no attempt; drain says
// besides that the nodes are going to be stopped.
const (
	Run   FleetState = "RUN"
	Pause FleetState = "PAUSE"
	Drain FleetState = "DRAIN"
)

// Intent is what the operator wants of the fleet. The store's copy is the authority;
// whatever carries it faster is a hint.
type Intent struct {
	State   FleetState
	Workers *int      // wanted number of workers of the fleet; nil: each node decides
	Drained []string  // nodes, by name, that hand everything off and take nothing, whatever the state is
	Who     string    // wrote it
	When    time.Time // by the store's clock; zero when there is none

	Orders    []Order      // that are kept, oldest first
	Sequence  int64        // of the last order
	Forgotten time.Time    // end of the latest order that is not kept any more
	Revision  cms.Revision // at which it was read

	created int64
}

const (
	kindIntent  = "intent"
	fleetIntent = kindIntent + ":fleet"
	// maxIntent bounds the record, in bytes: the names of MaxDrained nodes and the orders that are kept.
	maxIntent = 512 << 10
)

// MaxWorkers bounds the wanted number of workers of a fleet.
const MaxWorkers = 100_000

// MaxDrained bounds the nodes that are drained one by one, and maxNodeName their names in bytes.
const (
	MaxDrained  = 1000
	maxNodeName = 256
)

// Drains reports whether a node is to hand off and take nothing.
func (i Intent) Drains(node string) bool { return i.State == Drain || slices.Contains(i.Drained, node) }

// Same reports whether both want the same; authors may differ.
func (i Intent) Same(o Intent) bool {
	number := i.Workers == nil && o.Workers == nil || i.Workers != nil && o.Workers != nil && *i.Workers == *o.Workers
	return number && i.State == o.State && slices.Equal(i.Drained, o.Drained)
}

type intentBody struct {
	Workers *int     `json:"desiredWorkers,omitempty"`
	Drained []string `json:"drainedNodes,omitempty"`
	Who     string   `json:"who"`
	When    int64    `json:"when"` // epoch ms

	Sequence  int64   `json:"sequence,omitempty"`
	Orders    []Order `json:"orders,omitempty"`
	Forgotten int64   `json:"forgotten,omitempty"` // epoch ms
}

// Intent reads the operator's desired state; without a record it is to run.
func (s Records) Intent(ctx context.Context) (Intent, error) {
	r, err := s.leases.Record(ctx, fleetIntent)
	if errors.Is(err, cms.ErrNotFound) {
		return Intent{State: Run}, nil
	}
	if err != nil {
		return Intent{}, err
	}
	return decodeIntent(r)
}

func decodeIntent(r cms.Record) (Intent, error) {
	if len(r.Body) > maxIntent {
		return Intent{}, fmt.Errorf("record %s has %d bytes, more than %d: %w", r.ID, len(r.Body), maxIntent, fault.ErrCorrupt)
	}
	var b intentBody
	if err := r.Decode(&b); err != nil {
		return Intent{}, err
	}
	i := Intent{
		State: FleetState(r.State), Workers: b.Workers, Drained: b.Drained, Who: b.Who, When: time.UnixMilli(b.When),
		Orders: b.Orders, Sequence: b.Sequence, Revision: r.Revision, created: r.CreatedAt,
	}
	if b.Forgotten != 0 {
		i.Forgotten = time.UnixMilli(b.Forgotten)
	}
	return i, i.check()
}

func (i Intent) check() error {
	switch i.State {
	case Run, Pause, Drain:
	default:
		return fmt.Errorf("intent %q of the fleet is not RUN, PAUSE or DRAIN: %w", i.State, fault.ErrConfig)
	}
	if i.Workers != nil && (*i.Workers < 0 || *i.Workers > MaxWorkers) {
		return fmt.Errorf("%d workers of a fleet: not between 0 and %d: %w", *i.Workers, MaxWorkers, fault.ErrConfig)
	}
	if len(i.Drained) > MaxDrained {
		return fmt.Errorf("%d drained nodes, more than %d: %w", len(i.Drained), MaxDrained, fault.ErrConfig)
	}
	for _, name := range i.Drained {
		if name == "" || len(name) > maxNodeName {
			return fmt.Errorf("drained node %q: a name of 1 to %d bytes: %w", name, maxNodeName, fault.ErrConfig)
		}
	}
	return nil
}
