package session

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// PhaseLease is the right to work on a phase while Run renews it.
type PhaseLease struct {
	*cms.RecordLease
	Phase Phase // as it was acquired

	records Phases
}

// Acquire leases a phase. It returns a *NoneAvailable with the holder, or ErrMoved when the phase has ended or continues without a lease.
// After too many attempts it marks the phase FAILED, with one event, and returns ErrMoved.
func (s Phases) Acquire(ctx context.Context, name, holder string) (*PhaseLease, error) {
	l, r, err := s.items.LeaseRecord(ctx, phaseID(name), holder, cms.Terms{
		Kind: kindPhase, States: leasedStates[name], Window: PhaseWindow(s.items.Config().InitialLease, 1), Grow: true, Attempts: s.items.Config().MaxAttempts,
	})
	switch {
	case errors.Is(err, cms.ErrMoved):
		return nil, errors.Join(err, s.Event(ctx, phaseOf(r)))
	case err != nil:
		return nil, err
	}
	return &PhaseLease{RecordLease: l, Phase: phaseOf(r), records: s}, nil
}

// Event records the event of a phase's failure, once. The worker that marked the phase may have died before it did so.
func (s Phases) Event(ctx context.Context, p Phase) error {
	if p.State != PhaseFailed {
		return nil
	}
	_, err := s.items.Event(ctx, phaseSubject(p.Name), "failed", p.Error)
	return err
}

// Save writes the body of the record and renews the lease. moved means progress: attempts count from one again. state "" keeps the state.
func (l *PhaseLease) Save(ctx context.Context, state string, body json.RawMessage, moved bool) error {
	return l.Change(ctx, cms.HolderChange{State: state, Body: body, Moved: moved})
}

// Advance sets the state of the phase and releases the lease; body nil keeps the body.
func (l *PhaseLease) Advance(ctx context.Context, state string, body json.RawMessage) error {
	return l.Change(ctx, cms.HolderChange{State: state, Body: body, Free: true, Moved: true})
}

// Fail marks the phase FAILED, with one event.
func (l *PhaseLease) Fail(ctx context.Context, reason string) error {
	if err := l.Change(ctx, cms.HolderChange{State: PhaseFailed, Free: true, Error: reason}); err != nil {
		return err
	}
	p, err := l.records.Read(ctx, l.Phase.Name)
	if err != nil {
		return err
	}
	return l.records.Event(ctx, p)
}

// Release releases the lease. Only an attempt that failed by itself counts.
func (l *PhaseLease) Release(ctx context.Context, cause cms.Cause, reason string) error {
	return l.Change(ctx, cms.HolderChange{Free: true, Forget: cause != cms.CauseNone, Error: reason})
}

// Move changes the state of a phase without a lease from from to to; "" means no record. moved reports whether this call did. body nil
// keeps the body.
func (s Phases) Move(ctx context.Context, name, from, to string, body json.RawMessage) (moved bool, err error) {
	ch, err := s.leases.Update(ctx, phaseID(name), kindPhase, func(r cms.Record, now time.Time) (cms.Record, cms.Result) {
		return movePhase(r, from, to, body)
	})
	return ch.Result == cms.Applied, err
}

func movePhase(r cms.Record, from, to string, body json.RawMessage) (cms.Record, cms.Result) {
	if r.State == to && from != to {
		return r, cms.Already
	}
	if r.State != from {
		return r, cms.Lost
	}
	r.State, r.Holder, r.Expire = to, "", 0
	if body != nil {
		r.Body = body
	}
	return r, cms.Applied
}

// SeedOnce is SeedOnce of a cms.Coordinator for the items of shards. It also records the seeding process and the end of its lease in the
// documents phase.
func (s Phases) SeedOnce(ctx context.Context, holder string, seed func(context.Context) error, waiting func(*cms.NoneAvailable)) error {
	return s.items.SeedLeased(ctx, holder, func(ctx context.Context, l *cms.Lease) error {
		err := s.noteSetup(ctx, l.Holder, l.Item.Expiration*1000)
		if err == nil {
			err = seed(ctx)
		}
		if err != nil {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = s.noteSetup(rctx, l.Holder, 0) // anything left is replaced by the next holder or state
		}
		return err
	}, waiting)
}

// noteSetup records in the documents phase the process that seeds its items and the end of its lease, in epoch ms; until 0 removes this
// holder. The lease itself is on SetupID. It does nothing unless the phase is in its setup.
func (s Phases) noteSetup(ctx context.Context, holder string, until int64) error {
	_, err := s.leases.Update(ctx, phaseID(DocsPhase), kindPhase, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		switch {
		case r.State != PhaseSetup, until == 0 && r.Holder != holder:
			return r, cms.Already
		case until == 0:
			holder = ""
		}
		r.Holder, r.Expire = holder, until
		return r, cms.Applied
	})
	return err
}

// SetupFailed counts an attempt at preparing the documents that failed by itself. After the last allowed attempt the phase is FAILED, with
// one event. seen is the number of attempts that the caller read before it tried, so that concurrent attempts count once. last means that
// no other attempt can succeed.
func (s Phases) SetupFailed(ctx context.Context, seen int, reason string, last bool) error {
	most := s.items.Config().MaxAttempts
	if last {
		most = 0
	}
	_, err := s.leases.Update(ctx, phaseID(DocsPhase), kindPhase, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		return failAttempt(r, PhaseSetup, seen, most, reason)
	})
	if err != nil {
		return err
	}
	p, err := s.Read(ctx, DocsPhase)
	if err != nil {
		return err
	}
	return s.Event(ctx, p)
}

// Reopen sets a FAILED phase to its first state and records the operator; body nil keeps the body. Other phases are unchanged.
func (s Phases) Reopen(ctx context.Context, name, operator string, body json.RawMessage) (reopened bool, err error) {
	ch, err := s.leases.Update(ctx, phaseID(name), kindPhase, func(r cms.Record, now time.Time) (cms.Record, cms.Result) {
		if r.State != PhaseFailed {
			return r, cms.Already
		}
		r.State, r.Holder, r.Expire, r.Attempts, r.Error = leasedStates[name][0], "", 0, 0, ""
		if body != nil {
			r.Body = body
		}
		return r, cms.Applied
	})
	if err != nil || ch.Result != cms.Applied {
		return false, err
	}
	_, err = s.items.Event(ctx, phaseSubject(name), "retried-"+strconv.FormatInt(ch.Now.UnixMilli(), 10), operator)
	return true, err
}
