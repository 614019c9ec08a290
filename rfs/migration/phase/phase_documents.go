package phase

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/early"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// seedItems creates the items, in one process at a time, and returns when they are there.
func (s *Session) seedItems(ctx context.Context, st step) error {
	if st.State == "" {
		if _, err := session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, "", session.PhaseSetup, nil); err != nil {
			return err
		}
	}
	if err := s.SeedOnce(ctx, s.Holder); err != nil {
		if phaseCause(ctx, err) != cms.CauseNone || errors.Is(err, engine.ErrTargetReplaced) {
			return err
		}
		return errors.Join(err, session.PhasesOf(s.Coordinator).SetupFailed(ctx, st.record.Attempts, fault.Text(err), errors.Is(err, fault.ErrCorrupt)))
	}
	_, err := session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, session.PhaseSetup, session.PhaseInProgress, nil)
	return err
}

// SeedOnce creates the items, in one process at a time. It does so again where a store lost the completion of that.
func (s *Session) SeedOnce(ctx context.Context, holder string) error {
	return session.PhasesOf(s.Coordinator).SeedOnce(ctx, holder, s.seed, func(busy *cms.NoneAvailable) {
		s.Log.DebugContext(ctx, "another worker prepares the work items", "holder", busy.Holder, "until", busy.NextExpiry)
	})
}

// seed creates one item for each shard, or for each part of one that is split. An index that is not on the target has items that are
// FAILED from the beginning.
func (s *Session) seed(ctx context.Context) error {
	if !s.Phases.Has(PhaseIndices) {
		if err := s.takeIndices(ctx); err != nil {
			return err
		}
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	if err := s.checkChosen(entries); err != nil {
		return err
	}
	if err := s.bindExisting(ctx); err != nil {
		return err
	}
	if s.Root != nil { // sealed by the round before
		if err := s.unsealTargets(ctx, entries); err != nil {
			return err
		}
	}
	if err := s.harden(ctx, entries); err != nil {
		return err
	}
	var roots []iter.Seq[cms.Root]
	var failed []cms.FailedIndex
	for _, e := range entries {
		switch e.State {
		case session.PhaseFailed:
			failed = append(failed, cms.FailedIndex{Name: e.Name, Shards: e.Shards, Reason: e.Error})
		case session.PhaseCompleted:
			if e, err = s.split(ctx, e); err != nil {
				return err
			}
			roots = append(roots, e.Roots())
		default:
			return fmt.Errorf("index %s is not on the target yet: %w", e.Name, fault.ErrUnavailable)
		}
	}
	if err := s.Coordinator.CreateFailedItems(ctx, slices.Values(failed)); err != nil {
		return err
	}
	_, err = s.Coordinator.SeedRoots(ctx, func(yield func(cms.Root) bool) {
		for _, of := range roots {
			for r := range of {
				if !yield(r) {
					return
				}
			}
		}
	})
	return err
}

// takeIndices makes entries where the phase indices is off: nothing is created on the
// target, and an index that it lacks is FAILED.
func (s *Session) takeIndices(ctx context.Context) error {
	plan, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if err := s.checkHeld(ctx, plan); err != nil {
		return err
	}
	if err := s.createEntries(ctx, plan); err != nil {
		return err
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.State != session.PhaseNotStarted {
			continue
		}
		entry, err := s.readEntry(ctx, e)
		if err != nil {
			return err
		}
		err = s.haveTargets(ctx, entry)
		if err == nil {
			err = s.checkTargets(ctx, entry, 0)
		}
		switch {
		case err == nil:
			_, err = session.EntriesOf(s.Coordinator).Complete(ctx, e.Name, nil)
		case errors.Is(err, ErrTargetMissing):
			s.Log.WarnContext(ctx, "index fails", "index", e.Name, "error", err)
			_, err = session.EntriesOf(s.Coordinator).Fail(ctx, e.Name, fault.Text(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// auditOnce audits the items in one process at a time. A *cms.NoneAvailable reports which other process does it. Where another has
// ended its audit since this worker saw open documents, clean is what it found, unless this worker wants one of its own.
func (s *Session) auditOnce(ctx context.Context, own bool) (report cms.AuditReport, clean bool, err error) {
	for {
		lease, err := session.AuditsOf(s.Coordinator).Lease(ctx, s.Holder)
		if err != nil {
			return report, false, err
		}
		err = lease.Run(ctx, func(ctx context.Context) error {
			p, err := session.PhasesOf(s.Coordinator).Read(ctx, session.DocsPhase)
			if err != nil {
				return err
			}
			if p.State != session.PhaseAudit && !own {
				clean = p.State == session.PhaseCompleted
				return nil
			}
			report, clean, err = s.auditItems(ctx, p.State != session.PhaseCompleted)
			return err
		})
		if errors.Is(err, fault.ErrLeaseLost) && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "lease of the audit lost", "error", err)
			continue
		}
		back, cancel := toGiveBack(ctx)
		if eerr := session.AuditsOf(s.Coordinator).End(back, lease); eerr != nil {
			s.Log.WarnContext(ctx, "the lease of the audit is not released; others wait for its end", "error", eerr)
		}
		cancel()
		return report, clean && err == nil, err
	}
}

// auditItems proves that the documents are complete and on the target, and sets the aliases that waited for them. Meanwhile it
// restores settings of target indices, also what a run with another wish has changed: where items are found open after all, the
// target refreshes its indices while their documents come. Where the documents ended in an earlier run, seal is false: what was
// written since is not the migration's.
func (s *Session) auditItems(ctx context.Context, seal bool) (cms.AuditReport, bool, error) {
	restored := early.Start(ctx, func(ctx context.Context) error {
		if s.Tuner == nil {
			return nil
		}
		_, err := s.Tuner.Restore(ctx)
		return err
	})
	defer restored.Stop()
	own, err := s.checkArrivals(ctx)
	if err != nil {
		return cms.AuditReport{}, false, err
	}
	if s.Ledger != nil && seal { // before applications can write by the aliases
		if err := s.Ledger.Seal(ctx, own...); err != nil {
			return cms.AuditReport{}, false, err
		}
	}
	if err := s.setLateAliases(ctx); err != nil {
		return cms.AuditReport{}, false, err
	}
	rerr := restored.Wait() // before documents are complete: no worker audits these again
	report, clean, err := session.AuditsOf(s.Coordinator).Finish(ctx)
	if err != nil {
		return report, false, fmt.Errorf("final audit: %w", err)
	}
	if clean {
		if err := errors.Join(s.finishDestination(ctx), s.attachPolicies(ctx)); err != nil {
			return report, false, err
		}
	} else if err := s.unseal(ctx); err != nil { // more documents are sent
		return report, false, err
	}
	if clean && rerr != nil {
		return report, false, rerr
	}
	return report, clean, nil
}

// checkArrivals compares the target indices with what was sent to them and returns how many operations the documents account for.
func (s *Session) checkArrivals(ctx context.Context) ([]rollback.Own, error) {
	if s.Counts == nil {
		return nil, nil
	}
	if s.resent == nil {
		s.resent = map[string]bool{}
	}
	check := &arrival.Check{
		Coordinator: s.Coordinator, Counts: s.Counts, Existing: s.Existing, Redirects: s.Redirects, Log: s.Log,
		Entry: s.readEntry, Present: func(ctx context.Context, e plan.Entry) error { return s.checkTargets(ctx, e, 0) },
		Runner: s.Runner, Shards: &s.Shards, Resent: s.resent,
		Lag: s.Version.Lag(), Repeats: s.Version.ChoosesIDs(),
	}
	if s.Ledger != nil {
		check.Ledger = s.Ledger
	}
	return check.All(ctx)
}

// EndDocuments is what follows when no item is open; own is that of auditOnce.
func (s *Session) EndDocuments(ctx context.Context, own bool) (cms.AuditReport, bool, error) {
	if _, err := session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, session.PhaseInProgress, session.PhaseAudit, nil); err != nil {
		return cms.AuditReport{}, false, err
	}
	return s.auditOnce(ctx, own)
}

// harden lets target indices write documents to disk before they acknowledge them, for the duration of the documents.
func (s *Session) harden(ctx context.Context, entries []session.IndexEntry) error {
	if s.Tuner == nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.State != session.PhaseCompleted {
			continue
		}
		entry, err := s.readEntry(ctx, e)
		if err != nil {
			return err
		}
		names = append(names, entry.Naming.Targets()...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if s.Request != nil && s.Request.Follow != nil {
		if err := s.Tuner.Remember(ctx, names); err != nil {
			return err
		}
	}
	return s.Tuner.Harden(ctx, names)
}

// lookForItems gives cms.ErrAllDone, unless an operator has opened an item again.
func (s *Session) lookForItems(ctx context.Context) error {
	open, err := s.Coordinator.Pending(ctx)
	switch {
	case err != nil:
		return err
	case open == 0:
		if err := errors.Join(s.finishDestination(ctx), s.attachPolicies(ctx)); err != nil {
			return err
		}
		return cms.ErrAllDone
	}
	if err := s.unseal(ctx); err != nil {
		return err
	}
	_, err = session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, session.PhaseCompleted, session.PhaseInProgress, nil)
	return err
}

// unseal is called before documents are sent after the end of the migration, when settings were restored.
func (s *Session) unseal(ctx context.Context) error {
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	if err := s.unsealTargets(ctx, entries); err != nil {
		return err
	}
	return s.harden(ctx, entries)
}

// unsealTargets is called before documents are sent to indices that are sealed: in a round to those of its entries, else to all.
func (s *Session) unsealTargets(ctx context.Context, entries []session.IndexEntry) error {
	if s.Ledger == nil {
		return nil
	}
	var names []string
	if s.Root != nil {
		if len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			entry, err := plan.DecodeEntry(e.Name, e.Body)
			if err != nil {
				return err
			}
			names = append(names, s.receivers(entry)...)
		}
	}
	return s.Ledger.Unseal(ctx, names...)
}

// receivers returns the target indices that documents of an index are sent to, those included that rules name.
func (s *Session) receivers(e plan.Entry) []string {
	names := e.Naming.Targets()
	if s.Redirects != nil {
		names = append(names, s.Redirects(e.Locator.IndexName)...)
	}
	return names
}
