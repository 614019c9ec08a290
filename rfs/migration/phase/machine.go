package phase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// step is the row of the state machine that is due, with the record of its phase.
type step struct {
	Row
	record session.Phase
	over   bool // the phases of this run are complete
}

// look reads the phase records and returns the step that is due: the first phase of this run whose record is not COMPLETED.
func (s *Session) look(ctx context.Context) (step, error) {
	for _, name := range session.PhaseNames() {
		row, err := RowFor(name, "")
		if err != nil {
			return step{}, err
		}
		if !s.Phases.Has(row.Phase) {
			continue
		}
		p, err := session.PhasesOf(s.Coordinator).Read(ctx, name)
		if err != nil {
			return step{}, err
		}
		if row, err = RowFor(name, p.State); err != nil {
			return step{}, err
		}
		if row.Does != Proceed {
			s.moveTo(row.Phase, row.State)
			return step{Row: row, record: p}, nil
		}
	}
	return step{over: true}, nil
}

// moveTo reports the phase and the state of its record that this worker acts on.
func (s *Session) moveTo(phase, state string) {
	if state == "" {
		state = session.PhaseNotStarted
	}
	if at := [2]string{phase, state}; s.Moved != nil && s.at != at {
		s.at = at
		s.Moved(phase, state)
	}
}

// act performs one step of the machine and reports whether this worker performed some of it. It returns a *cms.NoneAvailable while another
// worker performs it, and cms.ErrAllDone when the documents are complete. WorkOnItem is left to the caller, which leases the items.
func (s *Session) act(ctx context.Context, st step) (worked bool, err error) {
	listed := s.listed
	s.listed = nil // for the next step only: later, other processes may have added entries
	switch st.Does {
	case MakeSnapshot:
		return s.leased(ctx, st, s.makeSnapshot)
	case MoveGlobals:
		return s.leased(ctx, st, s.moveGlobals)
	case ListIndices:
		return s.leased(ctx, st, s.listIndices)
	case MakeIndices:
		return s.makeIndices(ctx, st.record, listed)
	case SeedItems:
		return false, s.seedItems(ctx, st)
	case AuditItems:
		_, _, err := s.auditOnce(ctx, false)
		return false, err
	case LookForItems:
		return false, s.lookForItems(ctx)
	case Stop:
		return false, errors.Join(&PhaseFailed{Phase: st.Phase, Reason: st.record.Error, Renewed: st.Phase == PhaseSnapshot && s.Snapshot.Renews}, session.PhasesOf(s.Coordinator).Event(ctx, st.record))
	}
	return false, nil
}

// errEnded means that the work has marked the phase FAILED itself.
var errEnded = errors.New("the phase has ended")

// leased runs work under the lease of a phase's record. If work returns nil, it has advanced the record. A failure without an outside cause
// counts as an attempt; after too many, the next failure marks the phase FAILED. A damaged repository marks it FAILED immediately.
func (s *Session) leased(ctx context.Context, st step, work func(context.Context, *session.PhaseLease) error) (worked bool, err error) {
	lease, err := session.PhasesOf(s.Coordinator).Acquire(ctx, st.Record, s.Holder)
	if errors.Is(err, cms.ErrMoved) {
		return false, nil // the state has changed; look again
	}
	if err != nil {
		return false, err
	}
	if begun := fmt.Sprint(st.Phase, lease.Phase.Attempts); s.begun != begun { // during an outage an attempt is repeated every second
		s.begun = begun
		s.Log.InfoContext(ctx, "phase started", "phase", st.Phase, "attempt", lease.Phase.Attempts)
	}
	err = lease.Run(ctx, func(ctx context.Context) error { return work(ctx, lease) })
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errEnded):
		return false, nil
	case errors.Is(err, fault.ErrCorrupt) && ctx.Err() == nil: // another attempt would read the same data
		s.Log.ErrorContext(ctx, "phase failed: the repository is damaged", "phase", st.Phase, "error", err)
		return false, lease.Fail(ctx, fault.Text(err))
	case errors.Is(err, fault.ErrLeaseLost):
		s.Log.WarnContext(ctx, "lease of a phase lost", "phase", st.Phase, "error", err)
		return false, nil // the new holder continues
	}
	back, cancel := releaseContext(ctx)
	defer cancel()
	rerr := lease.Release(back, phaseCause(ctx, err), fault.Text(err))
	if errors.Is(rerr, fault.ErrLeaseLost) {
		rerr = nil
	}
	return false, errors.Join(err, rerr)
}

// releaseContext returns a context for releasing a lease. It allows time for a busy store, because an unreleased lease blocks others until
// it expires.
func releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Minute
	if ctx.Err() != nil {
		limit = 5 * time.Second
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// phaseCause returns why an attempt at a phase ended. Only CauseNone counts as an attempt. Attempts do not count if they were stopped,
// ended by another worker's change or by an outage, or need an action of the user first.
func phaseCause(ctx context.Context, err error) cms.Cause {
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrSnapshotRuns):
		return cms.CauseDrain
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrConfig), errors.Is(err, cms.ErrConflict):
		return cms.CauseOutage
	}
	return cms.CauseNone
}

// plan reads the snapshot and returns the plan; the plan is made once per process.
func (s *Session) plan(ctx context.Context) (*plan.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planned != nil {
		return s.planned, nil
	}
	name, uuid, err := s.snapshotName(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.Plan(ctx, name)
	if err != nil {
		return nil, s.withoutSnapshot(ctx, err)
	}
	if uuid != "" && p.UUID != "" && p.UUID != uuid {
		return nil, fmt.Errorf("the repository holds a snapshot %s with the UUID %s, the one this session created has %s; check that --repo-uri and the source's repository name the same place: %w",
			name, p.UUID, uuid, fault.ErrConfig)
	}
	if err := s.bindSnapshot(ctx, p.Identity); err != nil {
		return nil, err
	}
	if s.Indices != nil {
		var owns creation.Owns
		if s.Root != nil && s.Ledger != nil {
			owns = s.Ledger.Owns
		}
		if err := s.Indices.Check(ctx, p, owns); err != nil {
			return nil, err
		}
	}
	s.planned = p
	return p, nil
}

// withoutSnapshot adds to the error of a plan what to do if the snapshot that the session was started with is gone from the repository.
func (s *Session) withoutSnapshot(ctx context.Context, err error) error {
	started, rerr := session.IdentityOf(s.Coordinator).Read(ctx)
	if rerr != nil || started[snapshotKey] == "" {
		return err
	}
	return plan.SnapshotGone(err)
}

// Planned returns the plan of this process; nil before it is made.
func (s *Session) Planned() *plan.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planned
}

// snapshotName returns the snapshot's name, and its UUID if this session created it.
func (s *Session) snapshotName(ctx context.Context) (name, uuid string, err error) {
	p, err := session.PhasesOf(s.Coordinator).Read(ctx, session.SnapshotPhase)
	if err != nil {
		return "", "", err
	}
	switch {
	case p.State == "" && s.Snapshot.Derived:
		return "", "", fmt.Errorf("this session has not created its snapshot %s yet; let --phases contain snapshot: %w", s.Snapshot.Name, fault.ErrConfig)
	case p.State == "" || !s.Snapshot.Derived:
		return s.Snapshot.Name, "", nil
	}
	r, err := DecodeSnapshot(p.Body)
	if err != nil {
		return "", "", err
	}
	if p.State != session.PhaseCompleted {
		return "", "", fmt.Errorf("snapshot %s is not complete (%s): %w", r.Name, p.State, fault.ErrConfig)
	}
	if r.Anonymous {
		return r.Name, "", nil
	}
	return r.Name, r.UUID, nil
}

// waitForOthers blocks for a short time before the next look at the records, or returns ErrSnapshotRuns with --snapshot-no-wait.
func (s *Session) waitForOthers(ctx context.Context, st step, busy *cms.NoneAvailable) error {
	if s.Snapshot.NoWait && st.Does == MakeSnapshot {
		return fmt.Errorf("%w (%s watches it)", ErrSnapshotRuns, busy.Holder)
	}
	s.Log.DebugContext(ctx, "another worker works on the phase", "phase", st.Phase, "holder", busy.Holder, "until", busy.NextExpiry)
	return s.Runner.Clock.Sleep(ctx, s.pauseBetween())
}

// pauseBetween returns a random pause of 0.3 to 1 s, so that workers do not poll at the same time.
func (s *Session) pauseBetween() time.Duration {
	jitter := s.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	return 300*time.Millisecond + time.Duration(jitter()*float64(700*time.Millisecond))
}

// maxPhasePause is the maximum back-off between two attempts at a phase or an index.
const maxPhasePause = 30 * time.Second

// pauseAfter returns the back-off before the next attempt. It doubles with each earlier attempt, except after a rejection, which the target
// would only repeat.
func (s *Session) pauseAfter(earlier int, cause error) time.Duration {
	if errors.Is(cause, fault.ErrRejected) {
		return s.pauseBetween()
	}
	return retry.Policy{First: 2 * s.pauseBetween(), Max: maxPhasePause}.Pause(max(earlier, 0) + 1)
}

// Finished reports whether every phase of the run is complete and no item is open.
func (s *Session) Finished(ctx context.Context) (bool, error) {
	st, err := s.look(ctx)
	switch {
	case err != nil:
		return false, err
	case st.over:
		return true, nil
	case st.Does != LookForItems:
		return false, nil
	}
	open, err := s.Coordinator.Pending(ctx)
	return open == 0, err
}
