package phase

import (
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// checkForeign rejects a trial run if the target has indices with the trial's names that the session did not create.
func (s *Session) checkForeign(ctx context.Context, p *plan.Plan) error {
	if s.Indices == nil || !slices.ContainsFunc(p.Indices, func(x plan.Index) bool { return x.Entry.Trial != nil }) {
		return nil
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	ours := map[string][]string{}
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return err
		}
		ours[e.Name] = entry.Ours
	}
	for _, x := range p.Indices {
		absent, err := s.Indices.Absent(ctx, x.Entry.Naming.Targets())
		if err != nil {
			return err
		}
		e := x.Entry
		e.Ours = ours[x.Name]
		if err := e.Foreign(absent); err != nil {
			return err
		}
	}
	return nil
}
