package recorded

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Targets returns the target indices of a session. Targets that rules, files or messages name are not in the entries; they are
// only known if documents for them failed.
func Targets(ctx context.Context, kept *cms.Coordinator) (map[string]bool, error) {
	all := map[string]bool{}
	settings, err := session.IdentityOf(kept).Settings(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	planned := false
	for e, err := range session.EntriesOf(kept).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("state of the session: %w", err)
		}
		planned = true
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		if entry.Unread { // the metadata of its index is damaged
			continue
		}
		for _, name := range entry.Naming.Targets() {
			all[name] = true
		}
	}
	if planned && settings["rules"] == "" {
		return all, nil
	}
	places, err := session.PlacesOf(kept).All(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		for _, s := range p.Sums {
			all[s.Index] = true
		}
	}
	return all, nil
}
