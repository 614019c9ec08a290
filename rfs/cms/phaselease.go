package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
)

// changed is what became of a change to a record.
type changed struct {
	Record  Record
	Verdict Verdict
	Now     time.Time // of the store, when the change was decided
	Before  Reading   // of our clocks, before Now was asked for
}

// change applies a pure change to a record, again if somebody came between. A record
// that does not exist is given to it with id and kind only.
func (c *Coordinator) change(ctx context.Context, id, kind string, f func(Record, time.Time) (Record, Verdict)) (ch changed, err error) {
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		old, err := c.store.Record(ctx, id)
		if errors.Is(err, ErrNotFound) {
			old, err = Record{ID: id, Kind: kind}, nil
		}
		if err != nil {
			return err
		}
		ch.Before = c.clock.Read()
		if ch.Now, _, err = c.store.Now(ctx); err != nil {
			return err
		}
		if ch.Record, ch.Verdict = f(old, ch.Now); ch.Verdict != Applied && ch.Verdict != Exhausted {
			return nil
		}
		if ch.Record.UpdatedAt = ch.Now.UnixMilli(); ch.Record.CreatedAt == 0 {
			ch.Record.CreatedAt = ch.Record.UpdatedAt
		}
		ch.Record.Revision, err = c.store.Put(ctx, ch.Record)
		return err
	})
	if err != nil {
		return ch, fmt.Errorf("change record %s: %w", id, err)
	}
	return ch, nil
}

// PhaseLease is the right to work on a phase, for as long as Run renews it.
type PhaseLease struct {
	Phase Phase // as it was acquired

	c      *Coordinator
	holder string
	window time.Duration // of the first attempt

	mu       sync.Mutex
	deadline instant
	third    time.Duration // of the window: when the lease is renewed
}

// AcquirePhase leases a phase. A *NoneAvailable says who holds it and until when;
// ErrPhaseMoved that it has ended or goes on without a lease. A phase that was tried too
// often is marked FAILED, with one event, which is an ErrPhaseMoved too.
func (c *Coordinator) AcquirePhase(ctx context.Context, name, holder string) (*PhaseLease, error) {
	a := acquirePhase{
		Holder: holder + "_" + strconv.FormatInt(c.seq.Add(1), 10), States: leasedStates[name],
		Window: PhaseWindow(c.cfg.InitialLease, 1), Grace: c.grace, Attempts: c.cfg.MaxAttempts,
	}
	ch, err := c.change(ctx, phaseID(name), kindPhase, a.apply)
	if err != nil {
		return nil, err
	}
	switch p := phaseOf(ch.Record); ch.Verdict {
	case Held:
		return nil, &NoneAvailable{Holder: p.Holder, NextExpiry: p.Expire.Add(c.grace), Open: 1}
	case Exhausted:
		return nil, errors.Join(ErrPhaseMoved, c.PhaseEvent(ctx, p))
	case Done:
		return nil, ErrPhaseMoved
	default:
		l := &PhaseLease{Phase: p, c: c, holder: a.Holder, window: a.Window}
		l.granted(ch)
		return l, nil
	}
}

// PhaseEvent makes sure that the failure of a phase is told, once: whoever marked it may
// have died before it did.
func (c *Coordinator) PhaseEvent(ctx context.Context, p Phase) error {
	if p.State != PhaseFailed {
		return nil
	}
	_, err := c.Event(ctx, phaseSubject(p.Name), "failed", p.Error)
	return err
}

// granted notes until when the lease may be relied on.
func (l *PhaseLease) granted(ch changed) {
	length := time.UnixMilli(ch.Record.Expire).Sub(ch.Now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = ch.Before.after(length - Margin(length))
	l.third = length / 3
}

// Left is the time in which the lease may be relied on; it ends a margin before the lease
// does, by whichever clock is first.
func (l *PhaseLease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline.left(l.c.clock.Read())
}

func (l *PhaseLease) renewAfter() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.third
}

// hold applies a change that only the holder may make.
func (l *PhaseLease) hold(ctx context.Context, h heldPhase) error {
	h.Holder, h.Window = l.holder, l.window
	ch, err := l.c.change(ctx, phaseID(l.Phase.Name), kindPhase, h.apply)
	if err != nil {
		return err
	}
	if ch.Verdict == Lost {
		return fmt.Errorf("phase %s belongs to %q now: %w", l.Phase.Name, ch.Record.Holder, fault.ErrLeaseLost)
	}
	if !h.Free {
		l.granted(ch)
	}
	return nil
}

// Run does the work of the phase and renews the lease after each third of it. The work's
// context ends before the lease does; its cause is then a fault.ErrLeaseLost.
func (l *PhaseLease) Run(ctx context.Context, work func(context.Context) error) error {
	guarded, end := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		last := l.c.clock.Read().Mono
		for {
			// In small steps: a clock may jump while we sleep.
			step := min(time.Second, l.renewAfter()/4)
			if l.c.clock.Sleep(guarded, max(step, time.Millisecond)) != nil {
				return
			}
			now := l.c.clock.Read().Mono
			if l.Left() > 0 && now-last < l.renewAfter() {
				continue
			}
			if l.Left() <= 0 {
				end(fmt.Errorf("lease of phase %s ran out: %w", l.Phase.Name, fault.ErrLeaseLost))
				return
			}
			last = now
			if err := l.hold(guarded, heldPhase{}); errors.Is(err, fault.ErrLeaseLost) {
				end(err)
				return
			}
		}
	})
	err := work(guarded)
	cause := context.Cause(guarded)
	end(nil)
	beside.Wait()
	if err != nil && errors.Is(cause, fault.ErrLeaseLost) {
		return cause
	}
	return err
}

// Save writes the body of the record and renews the lease. moved says that it is progress:
// attempts count from one again. state "" keeps the state.
func (l *PhaseLease) Save(ctx context.Context, state string, body json.RawMessage, moved bool) error {
	return l.hold(ctx, heldPhase{State: state, Body: body, Moved: moved})
}

// Advance moves the phase to a state and gives the lease up; body nil keeps the body.
func (l *PhaseLease) Advance(ctx context.Context, state string, body json.RawMessage) error {
	return l.hold(ctx, heldPhase{State: state, Body: body, Free: true, Moved: true})
}

// Fail ends the phase for good, with one event.
func (l *PhaseLease) Fail(ctx context.Context, reason string) error {
	if err := l.hold(ctx, heldPhase{State: PhaseFailed, Free: true, Error: reason}); err != nil {
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
	return l.hold(ctx, heldPhase{Free: true, Forget: !cause.counted(), Error: reason})
}

// MovePhase changes the state of a phase that nobody needs to lease, if it is still from
// ("" for a phase without a record); moved says whether this call did. body nil keeps the body.
func (c *Coordinator) MovePhase(ctx context.Context, name, from, to string, body json.RawMessage) (moved bool, err error) {
	ch, err := c.change(ctx, phaseID(name), kindPhase, func(r Record, now time.Time) (Record, Verdict) {
		return movePhase(r, from, to, body)
	})
	return ch.Verdict == Applied, err
}

func movePhase(r Record, from, to string, body json.RawMessage) (Record, Verdict) {
	if r.State == to && from != to {
		return r, Already
	}
	if r.State != from {
		return r, Lost
	}
	r.State = to
	if body != nil {
		r.Body = body
	}
	return r, Applied
}

// SetupFailed counts an attempt at preparing the documents that failed by itself. With the last of the attempts that are
// allowed the phase is FAILED, with one event. seen are the attempts that the caller read before it tried: of several workers
// that tried at the same time one counts.
func (c *Coordinator) SetupFailed(ctx context.Context, seen int, reason string) error {
	_, err := c.change(ctx, phaseID(DocsPhase), kindPhase, func(r Record, _ time.Time) (Record, Verdict) {
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
	ch, err := c.change(ctx, phaseID(name), kindPhase, func(r Record, now time.Time) (Record, Verdict) {
		if r.State != PhaseFailed {
			return r, Already
		}
		r.State, r.Holder, r.Expire, r.Attempts, r.Error = leasedStates[name][0], "", 0, 0, ""
		if body != nil {
			r.Body = body
		}
		return r, Applied
	})
	if err != nil || ch.Verdict != Applied {
		return false, err
	}
	_, err = c.Event(ctx, phaseSubject(name), "retried-"+strconv.FormatInt(ch.Now.UnixMilli(), 10), operator)
	return true, err
}
