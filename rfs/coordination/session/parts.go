package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// MaxParts is the maximum number of parts of one shard.
const MaxParts = 1024

// Roots yields the first item of each chain of the index: one for each whole shard, and for each part of a split one.
func (e IndexEntry) Roots() iter.Seq[cms.Root] {
	return func(yield func(cms.Root) bool) {
		for n := range e.Shards {
			if len(e.Ends[n]) == 0 && !yield(cms.Root{ID: cms.ItemID{Index: e.Name, Shard: n}}) {
				return
			}
			begin := int64(0)
			for _, end := range e.Ends[n] {
				if !yield(cms.Root{ID: cms.ItemID{Index: e.Name, Shard: n, Cursor: begin}, End: end}) {
					return
				}
				begin = end
			}
		}
	}
}

// Split records the parts into which shards of an index are split, unless that was decided before, and returns the entry. It is called
// before the items of these shards are created.
func (s Entries) Split(ctx context.Context, index string, ends map[int][]int64) (IndexEntry, error) {
	if err := checkEnds(ends); err != nil {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", index, err)
	}
	return s.change(ctx, index, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) { return withEnds(r, ends) })
}

// withEnds adds the ends of shards that have no recorded ends.
func withEnds(r cms.Record, ends map[int][]int64) (cms.Record, cms.Result) {
	var e storedEntry
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return r, cms.Lost // decodeEntry returns the error
	}
	if e.Ends == nil {
		e.Ends = map[int][]int64{}
	}
	decided := len(e.Ends)
	for n, of := range ends {
		if _, known := e.Ends[n]; !known {
			e.Ends[n] = of
		}
	}
	if len(e.Ends) == decided {
		return r, cms.Already
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return r, cms.Lost
	}
	r.Body = raw
	return r, cms.Applied
}

// checkEnds returns an error unless the ends of each shard are positive and increase.
func checkEnds(ends map[int][]int64) error {
	for n, of := range ends {
		if len(of) > MaxParts {
			return fmt.Errorf("shard %d in %d parts, more than %d: %w", n, len(of), MaxParts, fault.ErrCorrupt)
		}
		begin := int64(0)
		for _, end := range of {
			if end <= begin {
				return fmt.Errorf("shard %d has a part from %d to %d: %w", n, begin, end, fault.ErrCorrupt)
			}
			begin = end
		}
	}
	return nil
}
