package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
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
	When    time.Time // by the store's clock; zero when nobody wrote one
}

const (
	kindIntent  = "intent"
	fleetIntent = kindIntent + ":fleet"
	intentTries = 8
)

// MaxWorkers bounds the wanted number of workers of a fleet.
const MaxWorkers = 100_000

// MaxDrained bounds the nodes that are drained one by one, and maxNodeName their names in bytes.
const (
	MaxDrained  = 1000
	maxNodeName = 256
)

// Drains says whether a node is to hand off and take nothing.
func (i Intent) Drains(node string) bool { return i.State == Drain || slices.Contains(i.Drained, node) }

// Same says whether both want the same, whoever wrote it.
func (i Intent) Same(o Intent) bool {
	number := i.Workers == nil && o.Workers == nil || i.Workers != nil && o.Workers != nil && *i.Workers == *o.Workers
	return number && i.State == o.State && slices.Equal(i.Drained, o.Drained)
}

type intentBody struct {
	Workers *int     `json:"desiredWorkers,omitempty"`
	Drained []string `json:"drainedNodes,omitempty"`
	Who     string   `json:"who"`
	When    int64    `json:"when"` // epoch ms
}

// Intent reads what the operator wants; to run, when nobody has said anything.
func (c *Coordinator) Intent(ctx context.Context) (Intent, error) {
	r, err := c.record(ctx, fleetIntent)
	if errors.Is(err, ErrNotFound) {
		return Intent{State: Run}, nil
	}
	if err != nil {
		return Intent{}, err
	}
	return decodeIntent(r)
}

func decodeIntent(r Record) (Intent, error) {
	var b intentBody
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return Intent{}, fmt.Errorf("record %s: %w: %w", r.ID, err, fault.ErrCorrupt)
	}
	i := Intent{State: FleetState(r.State), Workers: b.Workers, Drained: b.Drained, Who: b.Who, When: time.UnixMilli(b.When)}
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

// SetIntent changes what the operator wants. change gets the stored intent and may be
// called again when somebody else was quicker, so that no change is lost.
func (c *Coordinator) SetIntent(ctx context.Context, who string, change func(*Intent)) (Intent, error) {
	for range intentTries {
		i, err := c.trySetIntent(ctx, who, change)
		if !errors.Is(err, ErrConflict) {
			return i, err
		}
		if err := c.clock.Sleep(ctx, c.retries.rand.between(10*time.Millisecond, 100*time.Millisecond)); err != nil {
			return Intent{}, err
		}
	}
	return Intent{}, fmt.Errorf("write record %s: changed by others %d times: %w", fleetIntent, intentTries, fault.ErrUnavailable)
}

func (c *Coordinator) trySetIntent(ctx context.Context, who string, change func(*Intent)) (Intent, error) {
	i := Intent{State: Run}
	r, err := c.record(ctx, fleetIntent)
	switch {
	case errors.Is(err, ErrNotFound):
		r = Record{ID: fleetIntent, Kind: kindIntent}
	case err != nil:
		return i, err
	default:
		if was, err := decodeIntent(r); err == nil { // an intent that cannot be read is replaced
			i = was
		}
	}
	change(&i)
	if err := i.check(); err != nil {
		return i, err
	}
	now, _, err := c.now(ctx)
	if err != nil {
		return i, err
	}
	i.Who, i.When = who, now
	if r.CreatedAt == 0 {
		r.CreatedAt = now.UnixMilli()
	}
	r.State, r.UpdatedAt = string(i.State), now.UnixMilli()
	if r.Body, err = json.Marshal(intentBody{Workers: i.Workers, Drained: i.Drained, Who: who, When: now.UnixMilli()}); err != nil {
		return i, fmt.Errorf("record %s: %w", fleetIntent, err)
	}
	if _, err := c.store.Put(ctx, r); err != nil {
		return i, fmt.Errorf("write record %s: %w", fleetIntent, err)
	}
	return i, nil
}

// Now is the store's clock and how far the answer may be off.
func (c *Coordinator) Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error) {
	return c.now(ctx)
}

// Records yields the control records of a kind (index, phase, event, target), in order of ids.
func (c *Coordinator) Records(ctx context.Context, kind string) iter.Seq2[Record, error] {
	return c.store.List(ctx, kind)
}
