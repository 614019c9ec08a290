package phase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Policies attaches policies to indices of the target.
type Policies interface {
	// Attachments returns the policies of a plan's indices on the source, by the names of the indices there.
	Attachments(ctx context.Context, p *plan.Plan) (map[string]metadata.Attachment, error)
	// Attach attaches a policy to an index of the target. refused is the reason if the target rejects it.
	Attach(ctx context.Context, index string, a metadata.Attachment) (refused string, err error)
	// SetPatterns sets the index patterns of the source on the policies that the session created.
	SetPatterns(ctx context.Context, p *plan.Plan, l objects.Ledger) error
}

// attachPolicies attaches the policies of the source to the target indices that the session created and whose documents have all arrived.
// It is called after the audit has found every chain of items complete. The entry records attached policies, so a repetition does not
// attach a policy that an operator has detached. The next run retries rejected ones.
func (s *Session) attachPolicies(ctx context.Context) error {
	if s.Policies == nil {
		return nil
	}
	waiting, whole, err := s.unmanaged(ctx)
	if err != nil || len(waiting) == 0 {
		return err
	}
	p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	wanted, err := s.Policies.Attachments(ctx, p)
	if err != nil {
		return fmt.Errorf("policies of the source: %w", err)
	}
	if whole { // before the last entry is recorded, so that a crash in between repeats both
		if err := s.Policies.SetPatterns(ctx, p, s.Ledger); err != nil {
			return err
		}
	}
	return eachIndex(ctx, waiting, func(ctx context.Context, index string, e plan.Entry) error {
		return s.attachPolicy(ctx, index, e, wanted)
	})
}

// unmanaged returns the entries whose documents have all arrived and whose target indices have no policy yet. whole reports whether the
// documents of all indices have arrived, so that no index will be created any more.
func (s *Session) unmanaged(ctx context.Context) (waiting map[string]plan.Entry, whole bool, err error) {
	entries, err := s.Entries(ctx)
	if err != nil {
		return nil, false, err
	}
	waiting, whole = map[string]plan.Entry{}, true
	targets := map[string][]string{}
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, false, err
		}
		targets[e.Name] = entry.Naming.Targets()
		arrived := e.State == session.PhaseCompleted && (entry.Arrival == nil || entry.Arrival.Problem == "")
		whole = whole && arrived
		if arrived && !entry.Managed && !entry.Create && entry.Trial == nil && len(entry.Ours) > 0 {
			waiting[e.Name] = entry
		}
	}
	lacking, err := s.lacking(ctx, targets)
	if err != nil {
		return nil, false, err
	}
	for _, index := range lacking {
		if entry, waits := waiting[index]; waits {
			s.Log.WarnContext(ctx, "no policy is attached, because documents are missing; when rfsd redrive has delivered them, the same command attaches it", "index", index)
			delete(waiting, index)
			if entry.PolicyWaits {
				continue
			}
			if err := s.note(ctx, index, func(e *plan.Entry) { e.PolicyWaits = true }); err != nil {
				return nil, false, err
			}
		}
	}
	return waiting, whole && len(lacking) == 0, nil
}

// lacking returns the sorted names of the snapshot's indices that lack documents on the target: they have an open or failed item, or failed
// documents that rfsd redrive has not delivered. targets maps each index to its target indices.
func (s *Session) lacking(ctx context.Context, targets map[string][]string) ([]string, error) {
	failed, missing := map[string]int64{}, map[string]bool{}
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		id, err := item.Range()
		if err != nil {
			continue
		}
		if item.Open() || item.FailedItem() {
			missing[id.Index] = true
		}
		failed[id.Index] += item.Counts.Failed
	}
	again, err := progress.ReadRedrives(ctx, s.Coordinator)
	if err != nil {
		return nil, fmt.Errorf("documents that were sent again: %w", err)
	}
	for _, index := range slices.Sorted(maps.Keys(failed)) {
		if n := failed[index]; n > 0 && again.Take(targets[index], n) < n {
			missing[index] = true
		}
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

// attachPolicy attaches the policy of one index of the snapshot to its target indices.
func (s *Session) attachPolicy(ctx context.Context, index string, entry plan.Entry, wanted map[string]metadata.Attachment) error {
	a, has := wanted[index]
	var refused []progress.RefusedPolicy
	if has {
		err := s.checkEntry(ctx, index, entry)
		if err == nil {
			err = s.checkTargets(ctx, entry, 0)
		}
		if errors.Is(err, engine.ErrTargetReplaced) {
			refused = append(refused, progress.RefusedPolicy{Index: index, Policy: a.Policy, Reason: fault.Text(err)})
		} else if err != nil {
			return err
		}
		for _, name := range entry.Naming.Targets() {
			if len(refused) > 0 || !slices.Contains(entry.Ours, name) {
				continue
			}
			reason, err := s.Policies.Attach(ctx, name, a)
			if err != nil {
				return fmt.Errorf("policy of %s: %w", name, err)
			}
			if reason != "" {
				refused = append(refused, progress.RefusedPolicy{Index: name, Policy: a.Named(), Reason: reason})
				continue
			}
			s.Log.InfoContext(ctx, "policy attached", "index", name, "policy", a.Named())
		}
	}
	for _, r := range refused {
		s.Log.ErrorContext(ctx, "policy not attached", "index", r.Index, "policy", r.Policy, "reason", r.Reason)
		if _, err := s.Coordinator.Event(ctx, fmt.Sprintf("policy %s of %s", r.Policy, r.Index), "refused", r.Reason); err != nil {
			return err
		}
	}
	return s.note(ctx, index, func(e *plan.Entry) { e.Managed, e.RefusedPolicies = len(refused) == 0, refused })
}

// note updates the recorded entry of an index.
func (s *Session) note(ctx context.Context, index string, change func(*plan.Entry)) error {
	return session.EntriesOf(s.Coordinator).UpdateBody(ctx, index, func(was json.RawMessage) json.RawMessage {
		e, err := plan.DecodeEntry(index, was)
		if err != nil {
			return nil
		}
		change(&e)
		body, err := e.Encode()
		if err != nil {
			return nil
		}
		return body
	})
}
