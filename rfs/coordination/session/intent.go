package session

import (
	"context"
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

// FleetState is the operator's desired state of all workers.
type FleetState string

// The states. Pause and drain hand off every lease, without counting an attempt; drain also means that the nodes will be stopped.
const (
	Run   FleetState = "RUN"
	Pause FleetState = "PAUSE"
	Drain FleetState = "DRAIN"
)

// Intent is the operator's desired state of the fleet. The copy in the store is authoritative; faster channels carry hints.
type Intent struct {
	State    FleetState       `json:"-"`
	Workers  *int             `json:"desiredWorkers,omitempty"` // desired number of workers of the fleet; nil: each node decides
	Drained  []string         `json:"drainedNodes,omitempty"`   // names of nodes that hand off everything and lease nothing, in any state
	Set      Limits           `json:"set,omitzero"`             // values that override options
	Who      string           `json:"who"`                      // issuer of the last order
	When     time.Time        `json:"-"`                        // time of the last order, by the store's clock; zero without one
	Replaced map[string]int64 `json:"replaced,omitempty"`       // per subject, the Seq of the revision that its last order replaced
	Revision cms.Revision     `json:"-"`                        // as it was read
}

const (
	kindIntent  = "intent"
	fleetIntent = kindIntent + ":fleet"
	// maxIntent limits the record, in bytes: to the names of MaxDrained nodes.
	maxIntent = 512 << 10
)

// MaxWorkers limits the desired number of workers of a fleet.
const MaxWorkers = 100_000

// MaxDrained limits the number of nodes drained by name, and maxNodeName the length of a name in bytes.
const (
	MaxDrained  = 1000
	maxNodeName = 256
)

// Drains reports whether a node must hand off everything and lease nothing.
func (i Intent) Drains(node string) bool { return i.State == Drain || slices.Contains(i.Drained, node) }

// Same reports whether both have the same desired state; issuers may differ.
func (i Intent) Same(o Intent) bool {
	return i.State == o.State && sameNumber(i.Workers, o.Workers) && slices.Equal(i.Drained, o.Drained) && i.Set.Same(o.Set)
}

func sameNumber[N int | int64](a, b *N) bool { return a == b || a != nil && b != nil && *a == *b }

// Since describes how the intent differs from an earlier one, in the words of orders; "" if it does not.
func (i Intent) Since(o Intent) string {
	var changes []string
	if i.State != o.State {
		changes = append(changes, map[FleetState]string{Run: "resume", Pause: "pause", Drain: "drain"}[i.State])
	}
	switch {
	case sameNumber(i.Workers, o.Workers):
	case i.Workers == nil:
		changes = append(changes, "scale auto")
	default:
		changes = append(changes, "scale "+strconv.Itoa(*i.Workers))
	}
	without := func(all, others []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(others, n) })
	}
	if drained := without(i.Drained, o.Drained); len(drained) > 0 {
		changes = append(changes, "drain "+strings.Join(drained, " "))
	}
	if resumed := without(o.Drained, i.Drained); len(resumed) > 0 {
		changes = append(changes, "resume "+strings.Join(resumed, " "))
	}
	return strings.Join(append(changes, i.Set.since(o.Set)...), ", ")
}

// Intent reads the operator's desired state. Without a record it is Run.
func (s Orders) Intent(ctx context.Context) (Intent, error) {
	r, err := s.leases.Record(ctx, fleetIntent)
	if errors.Is(err, cms.ErrNotFound) {
		return Intent{State: Run}, nil
	}
	if err != nil {
		return Intent{}, err
	}
	return decodeIntent(r)
}

// decodeIntent returns the intent in a record. With an error it returns Run, at the revision of the record.
func decodeIntent(r cms.Record) (Intent, error) {
	none := Intent{State: Run, Revision: r.Revision}
	if len(r.Body) > maxIntent {
		return none, fmt.Errorf("record %s has %d bytes, more than %d: %w", r.ID, len(r.Body), maxIntent, fault.ErrCorrupt)
	}
	i := Intent{State: FleetState(r.State), When: time.UnixMilli(r.UpdatedAt), Revision: r.Revision}
	if err := r.Decode(&i); err != nil {
		return none, err
	}
	if err := i.check(); err != nil {
		return none, err
	}
	return i, nil
}

// put writes the record on the condition of the revision at which it was read.
func (s Orders) put(ctx context.Context, i Intent) (cms.Revision, error) {
	body, err := json.Marshal(i)
	if err != nil {
		return cms.Revision{}, fmt.Errorf("record %s: %w", fleetIntent, err)
	}
	if len(body) > maxIntent {
		return cms.Revision{}, fmt.Errorf("record %s has %d bytes, more than %d: resume drained nodes first: %w", fleetIntent, len(body), maxIntent, fault.ErrConfig)
	}
	rev, err := s.items.Store().Put(ctx, cms.Record{ID: fleetIntent, Kind: kindIntent, Revision: i.Revision, State: string(i.State), UpdatedAt: i.When.UnixMilli(), Body: body})
	if err != nil {
		return rev, fmt.Errorf("write record %s: %w", fleetIntent, err)
	}
	return rev, nil
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
	return i.Set.check()
}
