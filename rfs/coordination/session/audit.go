package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Run is AuditShards of the indices that have entries. Each index that failed has one event.
func (s Audits) Run(ctx context.Context) (cms.AuditReport, error) {
	missing := map[string]bool{} // reasons why an index is not on the target
	return s.items.AuditShards(ctx, s.roots(ctx, missing), missing)
}

// auditedEntries limits the failed entries that roots holds before it records their events.
const auditedEntries = 500

// roots yields the first item of each chain that an entry names, and notes why indices failed.
func (s Audits) roots(ctx context.Context, missing map[string]bool) iter.Seq2[cms.Root, error] {
	return func(yield func(cms.Root, error) bool) {
		var failed []IndexEntry
		for e, err := range Entries(s).All(ctx) {
			if err == nil && e.State == PhaseFailed {
				missing[e.Error] = true
				failed = append(failed, e)
			}
			if len(failed) == auditedEntries {
				err = errors.Join(err, Entries(s).Events(ctx, failed...))
				failed = failed[:0]
			}
			if err != nil {
				yield(cms.Root{}, err)
				return
			}
			for r := range e.Roots() {
				if !yield(r, nil) {
					return
				}
			}
		}
		if err := Entries(s).Events(ctx, failed...); err != nil {
			yield(cms.Root{}, err)
		}
	}
}

// Finish audits the items and, when every chain is whole and ended, records that
// the documents are complete. The second result says whether they are.
func (s Audits) Finish(ctx context.Context) (cms.AuditReport, bool, error) {
	rep, err := s.Run(ctx)
	if err != nil {
		return rep, false, err
	}
	seeded, err := s.items.Seeded(ctx)
	if err != nil {
		return rep, false, err
	}
	state := PhaseInProgress
	if rep.Clean() && seeded {
		state = PhaseCompleted
	}
	body := fmt.Appendf(nil, `{"items":%d,"failedItems":%d}`, rep.Items, len(rep.Failed))
	return rep, state == PhaseCompleted, s.leases.Put(ctx, cms.Record{ID: phaseID(DocsPhase), Kind: kindPhase, State: state, Body: body})
}
