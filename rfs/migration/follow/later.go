package follow

import (
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Running returns the number of the round after round 0 that has started and has not arrived, if there is one.
func Running(ctx context.Context, root *cms.Coordinator) (number int, running bool, err error) {
	all, err := session.RoundsOf(root).Read(ctx)
	last, _ := all.Last()
	return last.Number, err == nil && last.Number > 0 && last.Arrived == 0, err
}

// DeletesAfter reports whether rounds after a number have deleted documents, or found indices deleted. With rules an update may have deleted
// a document, too: they may send the new version to another index or under another id.
func DeletesAfter(all session.Followed, number int, rules bool) bool {
	return slices.ContainsFunc(all.Rounds, func(r session.Round) bool {
		return r.Number > number && r.Arrived != 0 && (r.Deleted > 0 || r.Vanished > 0 || r.Updated > 0 && rules)
	})
}

// SnapshotAfter returns the snapshot of the last round after a number that has brought an index of the source; "" if none has.
func SnapshotAfter(all session.Followed, number int, index string) string {
	for _, r := range slices.Backward(all.Rounds) {
		group, err := pattern.ParseList(r.Group)
		_, ended := slices.BinarySearch(all.EndedBefore(r.Number), index)
		switch {
		case r.Number <= number:
			return ""
		case r.Arrived != 0 && !ended && err == nil && (len(group) == 0 || group.Match(index)):
			return r.Snapshot
		}
	}
	return ""
}
