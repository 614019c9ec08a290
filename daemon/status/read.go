package status

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/progress"
)

// Read reads a session that migrates a snapshot from its store, with its items sorted by index, shard and cursor.
func Read(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	m, items, err := progress.ReadItems(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	out := make([]Item, 0, len(items))
	for _, it := range items {
		if x, ok := itemOf(it, m.ReadAt); ok {
			out = append(out, x)
		}
	}
	inOrder(out)
	return m, out, nil
}

func inOrder(items []Item) {
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Cursor, b.Cursor))
	})
}

func itemOf(it cms.Item, now time.Time) (Item, bool) {
	id, err := it.Range()
	if err != nil {
		return Item{}, false
	}
	x := Item{
		ID: it.ID, Index: id.Index, Shard: id.Shard, Cursor: id.Cursor, Holder: it.Holder, Attempts: it.Attempts,
		Watermark: it.Watermark, Indexed: it.Counts.Indexed, Failed: it.Counts.Failed, Filtered: it.Counts.Filtered, Reduced: it.Counts.Reduced, Kept: it.Counts.Kept,
		Failure: it.Failure, Successors: it.SuccessorIDs(),
	}
	switch {
	case it.FailedItem():
		x.State = "failed"
	case !it.Open() && it.Successors != "":
		x.State = "handed off"
	case !it.Open():
		x.State = "done"
	case it.Holder != "" && it.Expiration >= now.Unix():
		x.State = "leased"
	default:
		x.State = "open"
	}
	if it.Open() && it.Expiration != 0 {
		t := time.Unix(it.Expiration, 0).UTC()
		x.Expiry = &t
	}
	return x, true
}
