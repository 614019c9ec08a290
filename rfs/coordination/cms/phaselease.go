package cms

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// change applies a pure change to a record, again when another writer came between. A record that does not exist is
// passed with id and kind only.
func (c *Coordinator) change(ctx context.Context, id, kind string, f func(Record, time.Time) (Record, Result)) (changed, error) {
	return c.leases.change(ctx, readBudget, id, kind, pure(func(r Record, now time.Time, _ time.Duration) (Record, Result) { return f(r, now) }))
}

// PhaseLease is the right to work on a phase, for as long as Run renews it.
type PhaseLease struct {
	*RecordLease
	Phase Phase // as it was acquired

	c *Coordinator
}

// AcquirePhase leases a phase. A *NoneAvailable says who holds it and until when;
// ErrPhaseMoved that it has ended or goes on without a lease. A phase that was tried too
// often is marked FAILED, with one event, which is an ErrPhaseMoved too.
func (c *Coordinator) AcquirePhase(ctx context.Context, name, holder string) (*PhaseLease, error) {
	l, r, err := c.leaseRecord(ctx, phaseID(name), holder, Terms{
		Kind: kindPhase, States: leasedStates[name], Window: PhaseWindow(c.cfg.InitialLease, 1), Grow: true, Attempts: c.cfg.MaxAttempts,
	})
	switch {
	case errors.Is(err, ErrPhaseMoved):
		return nil, errors.Join(err, c.PhaseEvent(ctx, phaseOf(r)))
	case err != nil:
		return nil, err
	}
	return &PhaseLease{RecordLease: l, Phase: phaseOf(r), c: c}, nil
}

// leaseRecord leases a record under a holder id of this acquisition, with the coordinator's grace. A *NoneAvailable reports who
// holds it and until when; ErrPhaseMoved that it is in another state, with the record.
func (c *Coordinator) leaseRecord(ctx context.Context, id, holder string, t Terms) (*RecordLease, Record, error) {
	t.Holder, t.Grace = c.freshHolder(holder), c.grace
	l, r, err := c.leases.Acquire(ctx, id, t)
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return nil, r, &NoneAvailable{Holder: held.Holder, NextExpiry: held.Until.Add(c.grace), Open: 1}
	case errors.Is(err, ErrMoved):
		return nil, r, ErrPhaseMoved
	}
	return l, r, err
}

// freshHolder returns a holder id that no other acquisition of this process has.
func (c *Coordinator) freshHolder(holder string) string {
	return holder + "_" + strconv.FormatInt(c.seq.Add(1), 10)
}

// PhaseEvent records the event of a phase's failure, once: the worker that marked the phase may
// have died before it did.
func (c *Coordinator) PhaseEvent(ctx context.Context, p Phase) error {
	if p.State != PhaseFailed {
		return nil
	}
	_, err := c.Event(ctx, phaseSubject(p.Name), "failed", p.Error)
	return err
}

// Save writes the body of the record and renews the lease. moved says that it is progress:
// attempts count from one again. state "" keeps the state.
func (l *PhaseLease) Save(ctx context.Context, state string, body json.RawMessage, moved bool) error {
	return l.Change(ctx, HolderChange{State: state, Body: body, Moved: moved})
}

// Advance moves the phase to a state and gives the lease up; body nil keeps the body.
func (l *PhaseLease) Advance(ctx context.Context, state string, body json.RawMessage) error {
	return l.Change(ctx, HolderChange{State: state, Body: body, Free: true, Moved: true})
}

// Fail ends the phase for good, with one event.
func (l *PhaseLease) Fail(ctx context.Context, reason string) error {
	if err := l.Change(ctx, HolderChange{State: PhaseFailed, Free: true, Error: reason}); err != nil {
		return err
	}
	p, err := l.c.Phase(ctx, l.Phase.Name)
	if err != nil {
		return err
	}
	return l.c.PhaseEvent(ctx, p)
}

// Release gives the lease back. Only an attempt that failed by itself counts.
func (l *PhaseLease) Release(ctx context.Context, cause Cause, reason string) error {
	return l.Change(ctx, HolderChange{Free: true, Forget: !cause.counted(), Error: reason})
}

// MovePhase changes the state of a phase that needs no lease, if it is still from
// ("" for a phase without a record); moved says whether this call did. body nil keeps the body.
func (c *Coordinator) MovePhase(ctx context.Context, name, from, to string, body json.RawMessage) (moved bool, err error) {
	ch, err := c.change(ctx, phaseID(name), kindPhase, func(r Record, now time.Time) (Record, Result) {
		return movePhase(r, from, to, body)
	})
	return ch.Result == Applied, err
}

func movePhase(r Record, from, to string, body json.RawMessage) (Record, Result) {
	if r.State == to && from != to {
		return r, Already
	}
	if r.State != from {
		return r, Lost
	}
	r.State, r.Holder, r.Expire = to, "", 0
	if body != nil {
		r.Body = body
	}
	return r, Applied
}

// noteSetup writes into the documents' phase who prepares its items and until when, in epoch ms; until 0 removes this holder.
// The lease itself is that of SetupID. Without the record, or in another state, it does nothing.
func (c *Coordinator) noteSetup(ctx context.Context, holder string, until int64) error {
	_, err := c.change(ctx, phaseID(DocsPhase), kindPhase, func(r Record, _ time.Time) (Record, Result) {
		switch {
		case r.State != PhaseSetup, until == 0 && r.Holder != holder:
			return r, Already
		case until == 0:
			holder = ""
		}
		r.Holder, r.Expire = holder, until
		return r, Applied
	})
	return err
}

// SetupFailed counts an attempt at preparing the documents that failed by itself. With the last of the attempts that are
// allowed the phase is FAILED, with one event. seen are the attempts that the caller read before it tried: of several workers
// that tried at the same time one counts.
func (c *Coordinator) SetupFailed(ctx context.Context, seen int, reason string) error {
	_, err := c.change(ctx, phaseID(DocsPhase), kindPhase, func(r Record, _ time.Time) (Record, Result) {
		return failAttempt(r, PhaseSetup, seen, c.cfg.MaxAttempts, reason)
	})
	if err != nil {
		return err
	}
	p, err := c.Phase(ctx, DocsPhase)
	if err != nil {
		return err
	}
	return c.PhaseEvent(ctx, p)
}

// ReopenPhase opens a FAILED phase again in its first state and records who did; body nil
// keeps the body. A phase that is not FAILED stays as it is.
func (c *Coordinator) ReopenPhase(ctx context.Context, name, operator string, body json.RawMessage) (reopened bool, err error) {
	ch, err := c.change(ctx, phaseID(name), kindPhase, func(r Record, now time.Time) (Record, Result) {
		if r.State != PhaseFailed {
			return r, Already
		}
		r.State, r.Holder, r.Expire, r.Attempts, r.Error = leasedStates[name][0], "", 0, 0, ""
		if body != nil {
			r.Body = body
		}
		return r, Applied
	})
	if err != nil || ch.Result != Applied {
		return false, err
	}
	_, err = c.Event(ctx, phaseSubject(name), "retried-"+strconv.FormatInt(ch.Now.UnixMilli(), 10), operator)
	return true, err
}
