package phase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// Through performs the phases before the documents and seeds the items. It waits for other workers and retries failures; outage limits the
// retries while a cluster or the store does not answer.
func (s *Session) Through(ctx context.Context, outage *retry.Outage) error {
	for {
		st, err := s.look(ctx)
		if err == nil && !st.over && st.Phase != PhaseSnapshot {
			if _, err = s.plan(ctx); err != nil && !errors.Is(err, fault.ErrUnavailable) {
				return err
			}
		}
		if err == nil {
			_, err = s.perform(ctx, st)
		}
		var busy *cms.NoneAvailable
		var failed *PhaseFailed
		switch {
		case errors.Is(err, cms.ErrAllDone):
			return s.checkSnapshot(ctx)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &busy):
			err = s.waitForOthers(ctx, st, busy)
		case errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, ErrSnapshotRuns):
			if err = outage.Check(outage.Now(), err); err == nil { // check the time after the step, which may have taken long
				err = s.Runner.Clock.Sleep(ctx, time.Second)
			}
		case err == nil && st.Does == WorkOnItem:
			return nil
		case err == nil:
			outage.Over()
		case errors.As(err, &failed), errors.Is(err, ErrSnapshotRuns), errors.Is(err, fault.ErrConfig), errors.Is(err, engine.ErrTargetReplaced):
		default:
			// The record counts the attempt; after too many, the phase is FAILED with the reason.
			s.Log.WarnContext(ctx, "attempt at a phase failed", "phase", st.Phase, "error", err)
			cause := err
			if err = leasedAgain(st, err); err == nil {
				err = s.Runner.Clock.Sleep(ctx, s.pauseAfter(st.record.Attempts, cause))
			}
		}
		if err != nil {
			return err
		}
	}
}

// leasedAgain returns nil if the record of the phase counts the attempt, so that retries are limited, and otherwise err.
func leasedAgain(st step, err error) error {
	switch st.Does {
	case MakeSnapshot, MoveGlobals, ListIndices, SeedItems:
		return nil
	}
	return err
}

// RetryFailed reopens failed items: a user who runs the command again has usually repaired something. An item that still cannot be migrated
// fails again with its reason.
func (s *Session) RetryFailed(ctx context.Context) error {
	var failed []cms.ItemID
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return fmt.Errorf("list items: %w", err)
		}
		if id, err := item.Range(); err == nil && item.FailedItem() {
			failed = append(failed, id)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, e := range entries {
		missing[e.Name] = e.State != session.PhaseCompleted
	}
	failed = slices.DeleteFunc(failed, func(id cms.ItemID) bool { return missing[id.Index] })
	if len(failed) == 0 {
		return nil
	}
	if err := s.unseal(ctx); err != nil {
		return err
	}
	for _, id := range failed {
		s.Log.Info("failed item is tried again", "index", id.Index, "shard", id.Shard, "cursor", id.Cursor)
		if err := s.Coordinator.Reopen(ctx, id, "run again"); err != nil {
			return fmt.Errorf("retry %s: %w", id.Name(), err)
		}
	}
	_, err = session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, session.PhaseCompleted, session.PhaseInProgress, nil)
	return err
}

// CheckIndices verifies the entries of indices and their recorded target UUIDs. It returns the repository sizes of shards by index, in
// bytes. insist retries a step while the target does not answer. An index whose target was replaced fails.
func (s *Session) CheckIndices(ctx context.Context, insist func(context.Context, func() error) error) (map[string][]int64, error) {
	entries := s.takeSeeded()
	if entries == nil {
		var err error
		if entries, err = s.Entries(ctx); err != nil {
			return nil, err
		}
	}
	sizes := make(map[string][]int64, len(entries))
	for _, e := range entries {
		if e.State != session.PhaseCompleted {
			continue
		}
		entry, err := s.readEntry(ctx, e)
		if err != nil {
			return nil, err
		}
		sizes[e.Name] = entry.Bytes
		entry.Ends = e.Ends
		s.keepEntry(e.Name, entry)
		if err := insist(ctx, func() error { return s.checkTargets(ctx, entry, 0) }); errors.Is(err, engine.ErrTargetReplaced) {
			if _, err = s.Coordinator.FailIndex(ctx, e.Name, fault.Text(err)); err != nil {
				return nil, err
			} // the audit reports it
		} else if err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// WaitForAudit blocks for a short time while another worker audits.
func (s *Session) WaitForAudit(ctx context.Context, busy *cms.NoneAvailable) error {
	return s.waitForOthers(ctx, step{Row: Row{Phase: PhaseDocuments, Does: AuditItems}}, busy)
}
