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

// seedItems creates the items, in one process at a time, and blocks until they exist.
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

// SeedOnce creates the items, in one process at a time. It repeats this if a store lost the record of its completion.
func (s *Session) SeedOnce(ctx context.Context, holder string) error {
	return session.PhasesOf(s.Coordinator).SeedOnce(ctx, holder, s.seed, func(busy *cms.NoneAvailable) {
		s.Log.DebugContext(ctx, "another worker prepares the work items", "holder", busy.Holder, "until", busy.NextExpiry)
	})
}

// seed creates one item for each shard, or for each part of a split shard. Items of an index that is missing on the target are created as
// FAILED.
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
	if s.Root != nil { // the round before has sealed them
		if err := s.unsealTargets(ctx, entries); err != nil {
			return err
		}
	}
	if err := s.harden(ctx, entries); err != nil {
		return err
	}
	var roots []iter.Seq[cms.Root]
	var failed []cms.FailedIndex
	for i, e := range entries {
		switch e.State {
		case session.PhaseFailed:
			failed = append(failed, cms.FailedIndex{Name: e.Name, Shards: e.Shards, Reason: e.Error})
		case session.PhaseCompleted:
			if e, err = s.split(ctx, e); err != nil {
				return err
			}
			entries[i] = e
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
	if err == nil && len(entries) <= mostSeeded {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seeded = entries
	}
	return err
}

// mostSeeded is the maximum number of entries that a process keeps from the seeding of their items until CheckIndices.
const mostSeeded = 1000

// takeSeeded returns the entries whose items this process has just seeded, once; nil if it has not.
func (s *Session) takeSeeded() []session.IndexEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.seeded = nil }()
	return s.seeded
}

// takeIndices creates the entries if the phase indices is off: it creates nothing on the target, and an entry whose target index is
// missing is FAILED.
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

// auditOnce audits the items, in one process at a time. It returns a *cms.NoneAvailable with the holder while another process does. If
// another audit has ended since this worker saw open documents, it returns the result of that audit, unless own is set.
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
		back, cancel := releaseContext(ctx)
		if eerr := session.AuditsOf(s.Coordinator).End(back, lease); eerr != nil {
			s.Log.WarnContext(ctx, "the lease of the audit is not released; others wait for its end", "error", eerr)
		}
		cancel()
		return report, clean && err == nil, err
	}
}

// auditItems verifies that the documents are complete and on the target, and sets the withheld aliases. Concurrently it restores the
// settings of target indices, including those changed by a run with other options: if items turn out to be open, the target refreshes its
// indices while their documents arrive. seal is false if the documents were completed in an earlier run, since later writes are not from
// the migration.
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
	if s.Ledger != nil && seal { // before applications can write through the aliases
		if err := s.Ledger.Seal(ctx, own...); err != nil {
			return cms.AuditReport{}, false, err
		}
	}
	if err := s.setLateAliases(ctx); err != nil {
		return cms.AuditReport{}, false, err
	}
	rerr := restored.Wait() // before the documents are recorded as complete, because no worker audits them again
	report, clean, err := session.AuditsOf(s.Coordinator).Finish(ctx)
	if err != nil {
		return report, false, fmt.Errorf("final audit: %w", err)
	}
	if clean {
		if err := errors.Join(s.finishDestination(ctx), s.attachPolicies(ctx)); err != nil {
			return report, false, err
		}
	} else if err := s.unseal(ctx); err != nil { // more documents will be sent
		return report, false, err
	}
	if clean && rerr != nil {
		return report, false, rerr
	}
	return report, clean, nil
}

// checkArrivals compares the target indices with the documents sent to them, and returns the number of operations they account for.
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

// EndDocuments starts the audit once no item is open, and audits with own as in auditOnce.
func (s *Session) EndDocuments(ctx context.Context, own bool) (cms.AuditReport, bool, error) {
	if _, err := session.PhasesOf(s.Coordinator).Move(ctx, session.DocsPhase, session.PhaseInProgress, session.PhaseAudit, nil); err != nil {
		return cms.AuditReport{}, false, err
	}
	return s.auditOnce(ctx, own)
}

// harden makes target indices write documents to disk before they acknowledge them, until Restore.
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

// lookForItems returns cms.ErrAllDone unless an operator has reopened an item.
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

// unseal prepares target indices for documents that are sent after the end of the migration, when settings were already restored.
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

// unsealTargets unseals the target indices before documents are sent to them: in a round the targets of its entries, otherwise all.
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

// receivers returns the target indices that documents of an index are sent to, including targets of rules.
func (s *Session) receivers(e plan.Entry) []string {
	names := e.Naming.Targets()
	if s.Redirects != nil {
		names = append(names, s.Redirects(e.Locator.IndexName)...)
	}
	return names
}
