package recorded

import (
	"context"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// PoliciesWaiting returns the sorted names of the snapshot's indices that got no policy because documents were missing.
func PoliciesWaiting(ctx context.Context, c *cms.Coordinator) ([]string, error) {
	var all []string
	for e, err := range session.EntriesOf(c).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list indices: %w", err)
		}
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		if entry.PolicyWaits && !entry.Managed {
			all = append(all, e.Name)
		}
	}
	slices.Sort(all)
	return all, nil
}
