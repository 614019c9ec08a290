package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
)

// followedFrom holds the records of the session of round 0. A session that is not followed is its own.
type followedFrom struct {
	root    *cms.Coordinator
	session string // its name
	number  int    // of the round whose documents are sent again
	rounds  session.Followed
	close   func() error
}

// openRoot opens the records of round 0 of a session, which hold what all rounds created.
func openRoot(ctx context.Context, o Options, kept *cms.Coordinator, client *target.Client) (followedFrom, error) {
	own := followedFrom{root: kept, session: o.Session, close: func() error { return nil }}
	var err error
	if own.rounds, err = session.RoundsOf(kept).Read(ctx); err != nil {
		return own, err
	}
	root, number, err := follow.LaterRound(ctx, kept, o.Session)
	if err != nil || number == 0 {
		return own, err
	}
	first := o
	first.Session, first.coordinatorFile = root, strings.TrimSuffix(o.coordinatorFile, strings.TrimPrefix(o.Session, root))
	records, closeFirst, err := openSession(ctx, first, client)
	switch {
	case errors.Is(err, state.ErrNone): // it was removed
		return own, nil
	case err != nil:
		return own, fmt.Errorf("session %s, which is followed: %w", root, err)
	}
	all, err := session.RoundsOf(records).Read(ctx)
	if err != nil {
		return own, errors.Join(err, closeFirst())
	}
	return followedFrom{records, root, number, all, closeFirst}, nil
}

// later returns redrive.Redrive.Later of the round; nil where later rounds have deleted nothing. The target remembers deletions for a time
// only, and would take documents again that were deleted.
func (f followedFrom) later(ctx context.Context, o Options, kept *cms.Coordinator, source redrive.Source, log *slog.Logger) (func(context.Context, []string, func(*doc.Document)) error, error) {
	recorded, err := session.IdentityOf(kept).Settings(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	if !follow.DeletesAfter(f.rounds, f.number, recorded["rules"] != "") {
		return nil, nil
	}
	again, ok := source.(*shards.Again)
	return func(ctx context.Context, indices []string, each func(*doc.Document)) error {
		if !ok {
			return config.Usage("rounds after round %d have deleted documents, which may be among these: give --repo-uri, and --rules of the following, so that they are not brought back", f.number)
		}
		return again.Later(ctx, indices, func(index string) string { return follow.SnapshotAfter(f.rounds, f.number, index) }, log, each)
	}, nil
}
