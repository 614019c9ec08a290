package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Driver starts and ends machines.
type Driver interface {
	// Apply sets the number of running machines to n, which may take effect later, and returns how many run now. It may be called again
	// with the same number, and by a former leader with an older one.
	Apply(ctx context.Context, n int) (running int, err error)
}

// Scaler drives the machines of a fleet while this node holds the lock.
type Scaler struct {
	Settings Settings
	Driver   Driver
	Node     string        // this node's name
	Demand   func() Demand // as of the last read of the store
	Log      *slog.Logger
}

const (
	// ID and kind of the record.
	recordID   = "scale:fleet"
	recordKind = "scale"
	// applyTimeout limits one call of the driver.
	applyTimeout = time.Minute
)

// Reconcile decides on the number of machines, records it, and has the driver apply it. It records the number first, by compare-and-set: a node
// that was deposed meanwhile changes nothing, and if it stops in between, the next leader applies the number. A former leader may still
// apply a number, but at most the maximum.
func (s *Scaler) Reconcile(ctx context.Context, store cms.RecordStore, loads []schedule.Load) error {
	now, _, err := store.Now(ctx)
	if err != nil {
		return fmt.Errorf("scaler: %w", err)
	}
	r, was, err := read(ctx, store)
	if err != nil {
		return err
	}
	demand := s.Demand()
	is := s.Settings.next(was, demand, loads, now.UnixMilli())
	is.Leader, is.Final = s.Node, is.Final && demand.Complete && is.Machines == was.Machines
	if r, err = write(ctx, store, r, is); err != nil {
		return err
	}
	if is.Machines != was.Machines {
		s.Log.Info("machines wanted", "machines", is.Machines, "before", was.Machines, "reason", is.Reason)
	}
	after := is
	actx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	running, err := s.Driver.Apply(actx, is.Machines)
	after.Running, after.Error, after.Final = running, "", demand.Complete
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		after.Running, after.Error, after.Final = max(running, is.Running), fault.Text(err), false
		if after.Error != was.Error {
			s.Log.Warn("number of machines not changed", "machines", is.Machines, "error", after.Error)
		}
	}
	if after == is {
		return nil
	}
	_, err = write(ctx, store, r, after)
	return err
}

// Read returns the state of the scaler, or the zero State.
func Read(ctx context.Context, store cms.Records) (State, error) {
	_, st, err := read(ctx, store)
	return st, err
}

func read(ctx context.Context, store cms.Records) (r cms.Record, st State, err error) {
	r, err = store.Record(ctx, recordID)
	if errors.Is(err, cms.ErrNotFound) {
		return cms.Record{ID: recordID, Kind: recordKind}, st, nil
	}
	if err != nil {
		return r, st, fmt.Errorf("state of the scaler: %w", err)
	}
	if err := r.Decode(&st); err != nil { // no fresh start, which would forget the used time
		return r, State{}, fmt.Errorf("state of the scaler: %w", err)
	}
	return r, st, nil
}

// write stores st unless the record has changed, and returns the record with its new revision.
func write(ctx context.Context, store cms.Records, r cms.Record, st State) (cms.Record, error) {
	var err error
	if r.Body, err = json.Marshal(st); err != nil {
		return r, fmt.Errorf("state of the scaler: %w", err)
	}
	if r.UpdatedAt = st.At; r.CreatedAt == 0 {
		r.CreatedAt = st.At
	}
	if r.Revision, err = store.Put(ctx, r); err != nil {
		return r, fmt.Errorf("state of the scaler: %w", err)
	}
	return r, nil
}
