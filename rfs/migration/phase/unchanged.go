package phase

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// continues runs before a round writes anything. It returns a fault.ErrConfig if other clients have written to target indices since the
// former round arrived, unless --existing-documents permits overwriting their writes.
func (s *Session) continues(ctx context.Context, p *plan.Plan) error {
	if s.Root == nil {
		return nil
	}
	if err := s.lookAtUnchanged(ctx, p); err != nil {
		return err
	}
	if s.Ledger == nil {
		return nil
	}
	var names []string
	for _, x := range p.Indices {
		if !x.Unchanged {
			names = append(names, s.receivers(x.Entry)...)
		}
	}
	written, err := s.Ledger.Written(ctx, names)
	if err != nil || len(written) == 0 {
		return err
	}
	all := slices.Sorted(maps.Keys(written))
	if s.Existing == "" {
		return fmt.Errorf("other clients have written to the target since the former round arrived, to %s (%s: %s): this round would replace their documents where the source changed the same ids, and leave the others. "+
			"End their writes, compare with rfsd verify, and continue with --existing-documents overwrite: %w", fault.Names(all, mostDiffers), all[0], written[all[0]], fault.ErrConfig)
	}
	for _, name := range all {
		s.Log.WarnContext(ctx, "other clients have written to the target since the former round arrived", "index", name, "difference", written[name])
	}
	return nil
}

// lookAtUnchanged verifies the target indices to which a round sends nothing. An index whose target is missing or was replaced is not
// treated as unchanged any more, so that it fails with the reason.
func (s *Session) lookAtUnchanged(ctx context.Context, p *plan.Plan) error {
	if s.UUIDs == nil {
		return nil
	}
	var names []string
	for _, x := range p.Indices {
		if x.Unchanged {
			names = append(names, x.Entry.Naming.Targets()...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	is, err := s.UUIDs(ctx, names)
	if err != nil {
		return fmt.Errorf("target indices: %w", err)
	}
	was, err := session.EntriesOf(s.Root).Targets(ctx, names...)
	if err != nil {
		return err
	}
	unchanged := 0
	for i := range p.Indices {
		x := &p.Indices[i]
		x.Unchanged = x.Unchanged && !slices.ContainsFunc(x.Entry.Naming.Targets(), func(name string) bool { return is[name] == "" || is[name] != was[name] })
		if x.Unchanged {
			unchanged++
		}
	}
	s.Log.InfoContext(ctx, "indices that are the same as in the former snapshot are left out", "unchanged", unchanged, "of", len(p.Indices))
	return nil
}
