package recorded

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Shards returns the shards of a migration with the sizes recorded when the work items were created, in bytes; 0 if a size was not
// read. It is empty before that.
func Shards(ctx context.Context, c *cms.Coordinator) ([]schedule.Shard, error) {
	var all []schedule.Shard
	for e, err := range session.EntriesOf(c).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("sizes of shards: %w", err)
		}
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		for n := range e.Shards {
			s := schedule.Shard{Index: e.Name, Shard: n}
			if n < len(entry.Bytes) {
				s.Bytes = entry.Bytes[n]
			}
			all = append(all, s)
		}
	}
	return all, nil
}
