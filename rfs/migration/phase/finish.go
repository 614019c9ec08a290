package phase

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// finishDestination finishes a destination that is a Finisher, after the last item. It is idempotent, because a process may crash between
// the end of the documents and the end of the destination.
func (s *Session) finishDestination(ctx context.Context) error {
	if s.Runner == nil {
		return nil
	}
	f, ok := s.Runner.Destination.(engine.Finisher)
	if !ok {
		return nil
	}
	failed := 0
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return fmt.Errorf("list items: %w", err)
		}
		if item.FailedItem() {
			failed++
		}
	}
	missing := ""
	if failed > 0 {
		missing = fmt.Sprintf("%d items failed; the same command tries them again", failed)
	}
	if missing == "" && s.Exported != nil {
		p, err := s.allPlanned(ctx)
		if err == nil {
			err = s.Exported(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("mappings of the export: %w", err)
		}
	}
	return f.Finish(ctx, missing)
}

// allPlanned returns the recorded plan of the session, without indices whose metadata cannot be read.
func (s *Session) allPlanned(ctx context.Context) (*plan.Plan, error) {
	entries, err := s.Entries(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{}
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err == nil && entry.Unread {
			continue
		}
		if err == nil {
			entry, err = s.readEntry(ctx, e)
		}
		if err != nil {
			return nil, err
		}
		source, err := s.SourceIndex(ctx, entry.Locator)
		if errors.Is(err, fault.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p.Indices = append(p.Indices, plan.Index{Name: e.Name, Source: source, Entry: entry})
	}
	return p, nil
}
