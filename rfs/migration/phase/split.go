package phase

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// partsOfTarget is the maximum number of parts of split shards for each shard of a target index: a shard does not index documents faster
// with more concurrent requests.
const partsOfTarget = 8

// split decides how the large shards of an index are split, records the decision, and returns the entry with the decision that was recorded
// first. It is called before the first item of a shard is created.
func (s *Session) split(ctx context.Context, e session.IndexEntry) (session.IndexEntry, error) {
	if s.SplitOver <= 0 {
		return e, nil
	}
	entry, err := s.readEntry(ctx, e)
	if err != nil || entry.Trial != nil || entry.Since != nil {
		return e, err
	}
	ends := map[int][]int64{}
	most := 0 // maximum number of parts of a shard
	for n, bytes := range entry.Bytes[:min(len(entry.Bytes), e.Shards)] {
		if _, decided := e.Ends[n]; decided || bytes <= s.SplitOver {
			continue
		}
		if most == 0 {
			if most, err = s.mostParts(ctx, entry); err != nil {
				return e, err
			}
		}
		if ends[n], err = s.splitShard(ctx, entry, cms.ItemID{Index: e.Name, Shard: n}, min(int((bytes-1)/s.SplitOver)+1, most)); err != nil {
			return e, err
		}
	}
	if len(ends) == 0 {
		return e, nil
	}
	return session.EntriesOf(s.Coordinator).Split(ctx, e.Name, ends)
}

// splitShard returns the ends of the parts of a shard. It returns none if the shard already has an item, or cannot be read, which its item
// will report.
func (s *Session) splitShard(ctx context.Context, entry plan.Entry, root cms.ItemID, parts int) ([]int64, error) {
	switch _, err := s.Coordinator.Item(ctx, root); {
	case err == nil:
		return nil, nil
	case !errors.Is(err, cms.ErrNotFound):
		return nil, err
	}
	ends, err := shards.Borders(ctx, s.Shards.Repo, entry, root.Shard, parts)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported) || errors.Is(err, snapshot.ErrShardMissing) {
		return nil, nil
	}
	return ends, err
}

// mostParts returns the maximum number of parts of a shard, given the shards of its target indices.
func (s *Session) mostParts(ctx context.Context, entry plan.Entry) (int, error) {
	targets := 0
	if s.Counts != nil {
		for _, name := range entry.Naming.Targets() {
			indices, err := s.Counts.GetIndex(ctx, name)
			if err != nil {
				return 0, fmt.Errorf("shards of %s: %w", name, err)
			}
			for _, x := range indices {
				n, err := strconv.Atoi(x.Settings["index.number_of_shards"])
				if err != nil {
					return 0, fmt.Errorf("index %s has %q shards: %w", x.Name, x.Settings["index.number_of_shards"], fault.ErrUnavailable)
				}
				if targets == 0 || n < targets {
					targets = n
				}
			}
		}
	}
	if targets == 0 { // an export or a dry run
		targets = entry.Shards
	}
	return min(max(1, partsOfTarget*targets/max(1, entry.Shards)), session.MaxParts), nil
}
