package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
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

// LaterRounds returns the names that the later rounds of a session have, among names of sessions or of files that keep one each. A session
// of such a name need not be a round (LaterRound).
func LaterRounds(root string, names []string) (rounds []string) {
	for _, name := range names {
		if of, number := splitName(name); number > 0 && of == root {
			rounds = append(rounds, name)
		}
	}
	return rounds
}

// Join makes the session of a later round, kept, a part of the chain that root starts. It returns a fault.ErrConfig if a former chain of the
// same name has left it: its items are complete without this round's documents. Former releases recorded no chain; they are known by the
// time at which the session started, where the clocks of the store's nodes may differ by tolerance.
func (r Round) Join(ctx context.Context, root, kept *cms.Coordinator, tolerance time.Duration) error {
	if r.Number == 0 {
		return nil
	}
	joined, err := r.joins(ctx, root, kept, tolerance)
	switch {
	case err != nil:
		return fmt.Errorf("session %s: %w", r.Session, err)
	case !joined:
		return fmt.Errorf("the session %s is of an earlier chain of rounds: remove it (rfsctl cleanup --force with this --session-name, or the file of this name with --coordinator-file) and run the command again: %w", r.Session, fault.ErrConfig)
	}
	return nil
}

// joins reports whether the session of a later round is, or is now, of the chain that root starts.
func (r Round) joins(ctx context.Context, root, kept *cms.Coordinator, tolerance time.Duration) (bool, error) {
	switch started, err := session.IdentityOf(kept).Started(ctx); {
	case errors.Is(err, cms.ErrNotFound):
	case err != nil:
		return false, err
	case started.Before(time.UnixMilli(r.Started).Add(-tolerance)):
		return false, nil
	}
	mark, err := session.IdentityOf(root).Mark(ctx)
	if err != nil {
		return false, err
	}
	return session.RoundsOf(kept).Join(ctx, mark)
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
