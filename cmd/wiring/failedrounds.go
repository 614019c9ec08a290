package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// failedRounds reads which documents of the compared snapshot failed in the rounds of a followed cluster.
type failedRounds struct {
	Options
	blobs  repo.Repository
	client *target.Client
	memory *budget.Budget
	log    *slog.Logger
}

// of returns the documents that failed in the rounds up to the round of a snapshot, except for documents that a later one of these rounds
// has sent again, given the records of round 0. For a snapshot that is not of a later round it returns the documents that the session has
// recorded; mine as in failedOf.
func (f failedRounds) of(ctx context.Context, snapshot string, kept *cms.Coordinator, mine bool) (*verify.Failed, error) {
	if kept == nil {
		return failedOf(ctx, f.Options, nil, false)
	}
	chain := &follow.Chain{Root: kept, Session: f.SessionOrDefault()}
	rounds, err := chain.Until(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	if len(rounds) < 2 {
		return failedOf(ctx, f.Options, kept, mine)
	}
	all := &verify.Failed{}
	for i, x := range rounds {
		if x.Failed == 0 || slices.ContainsFunc(rounds[i+1:], func(later follow.Round) bool { return later.Whole }) { // a whole snapshot was sent
			continue
		}
		failed, err := f.round(ctx, kept, x, rounds[i+1:])
		if err != nil {
			return nil, fmt.Errorf("failed documents of round %d: %w", x.Number, err)
		}
		if !all.Join(failed) {
			return nil, fmt.Errorf("the rounds have more than %d failed documents, which is more than can be held: %w", all.Len(), fault.ErrConfig)
		}
	}
	return all, nil
}

// round returns the documents that failed in a round and that none of the later rounds has sent again.
func (f failedRounds) round(ctx context.Context, root *cms.Coordinator, x follow.Round, later []follow.Round) (failed *verify.Failed, err error) {
	o, err := f.Round(x)
	if err != nil {
		return nil, err
	}
	kept := root
	if x.Number > 0 {
		var closeKept func() error
		if kept, closeKept, err = openSession(ctx, o, f.client); errors.Is(err, state.ErrNone) {
			kept = nil // its records were removed
		} else if err != nil {
			return nil, err
		} else {
			defer func() { err = errors.Join(err, closeKept()) }()
		}
	}
	if failed, err = failedOf(ctx, o, kept, kept != nil); err != nil || kept == nil || failed.Len() == 0 || len(later) == 0 {
		return failed, err
	}
	entries, err := recorded.Entries(ctx, kept)
	if err != nil {
		return nil, err
	}
	var followed session.Followed
	for _, r := range later {
		followed.Rounds = append(followed.Rounds, r.Round)
	}
	again := &shards.Again{Repo: f.blobs, Entries: entries, Edit: shards.Edits(f.rules), Redirects: f.rules.Targets, Memory: f.memory, MaxDocument: f.maxDocument}
	snapshotAfter := func(index string) string {
		if _, ended := slices.BinarySearch(later[len(later)-1].Follow.Ended, index); ended {
			return ""
		}
		return follow.SnapshotAfter(followed, x.Number, index)
	}
	err = again.Later(ctx, failed.Indices(), snapshotAfter, f.log, func(d *doc.Document) { failed.Remove(string(d.Index), d.ID) })
	return failed, err
}
