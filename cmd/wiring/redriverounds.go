package wiring

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/follow"
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
	if root == config.DefaultSession {
		first.Session = ""
	}
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
	return followedFrom{records, first.Session, number, all, closeFirst}, nil
}
