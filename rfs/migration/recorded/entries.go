// Package recorded reads the planned indices of a session from its state: the entries, the target indices and the sizes of the shards.
package recorded

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Entries returns the planned entries of a session. Without any, as in an import, it returns a fault.ErrConfig.
func Entries(ctx context.Context, kept *cms.Coordinator) ([]plan.Entry, error) {
	var all []plan.Entry
	for e, err := range session.EntriesOf(kept).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list indices: %w", err)
		}
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		if entry.Unread {
			continue
		}
		if entry.Locator.IndexName != e.Name {
			return nil, plan.Difference{Field: "index of the snapshot", Is: entry.Locator.IndexName, Want: e.Name}.Err(e.Name)
		}
		all = append(all, entry)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the session has planned no index of a snapshot, in which its documents could be read again: --from reads the files of an import: %w", fault.ErrConfig)
	}
	return all, nil
}
