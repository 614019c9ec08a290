package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Run is AuditShards for the indices that have entries. Each index that failed has one event.
func (s Audits) Run(ctx context.Context) (cms.AuditReport, error) {
	reported := map[string]bool{} // reasons why indices are not on the target, which have an event of their own
	return s.items.AuditShards(ctx, s.roots(ctx, reported), reported)
}

// auditedEntries limits the failed entries that roots holds before it records their events.
const auditedEntries = 500

// roots yields the first item of each chain in the entries, and adds the reasons of failed indices to reported.
func (s Audits) roots(ctx context.Context, reported map[string]bool) iter.Seq2[cms.Root, error] {
	return func(yield func(cms.Root, error) bool) {
		var failed []IndexEntry
		for e, err := range Entries(s).All(ctx) {
			if err == nil && e.State == PhaseFailed {
				reported[e.Error] = true
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

// Finish audits the items and reports whether the documents are complete: every chain is whole and ended. It records that.
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
