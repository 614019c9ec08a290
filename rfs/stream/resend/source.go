package resend

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Snapshot returns the snapshot that the session migrated. It returns a fault.ErrConfig for another repository and for other rules.
func (s *State) Snapshot(ctx context.Context, blobs repo.Repository, r *rules.Set) (*shards.Again, error) {
	if err := s.started(); err != nil {
		return nil, err
	}
	if was := s.settings["repository"]; was != plan.RepositoryIdentity(blobs.URI()) {
		return nil, fmt.Errorf("the session %s was migrated from %s: give it as --repo-uri: %w", s.Name, cmp.Or(was, "a directory"), fault.ErrConfig)
	}
	switch was := s.settings["rules"]; {
	case was == r.Digest():
	case was == "":
		return nil, fmt.Errorf("the session %s was migrated without rules: leave --rules out: %w", s.Name, fault.ErrConfig)
	default:
		return nil, fmt.Errorf("the session %s was migrated with other rules: give its file as --rules: %w", s.Name, fault.ErrConfig)
	}
	entries, err := recorded.Entries(ctx, s.Kept)
	if err != nil {
		return nil, err
	}
	return &shards.Again{Repo: blobs, Entries: entries, Edit: shards.Edits(r), Redirects: r.Targets, Versions: s.existing == bulk.Newer}, nil
}

// Files returns the files that the session imported. It returns a fault.ErrConfig for other files.
func (s *State) Files(ctx context.Context, c importer.Comparison) (*importer.Again, error) {
	if err := s.started(); err != nil {
		return nil, err
	}
	return importer.NewAgain(ctx, c, s.Kept)
}

// Later returns redrive.Redrive.Later of a round of a session that is followed; nil where later rounds have deleted nothing. The target
// remembers deletions for a time only, and would take documents again that were deleted. Where a later round has started over, it returns an
// error, also before that round has arrived, because it sends every document again.
func (s *State) Later(rounds session.Followed, number int, source redrive.Source, log *slog.Logger) func(context.Context, []string, func(*doc.Document)) error {
	if over := slices.IndexFunc(rounds.Rounds, func(r session.Round) bool { return r.Number > number && r.Whole }); over >= 0 {
		return func(context.Context, []string, func(*doc.Document)) error {
			return fmt.Errorf("round %d has started over, and sends every document of its snapshot: nothing of round %d has to be delivered any more: %w", rounds.Rounds[over].Number, number, fault.ErrConfig)
		}
	}
	if !follow.DeletesAfter(rounds, number, s.settings["rules"] != "") {
		return nil
	}
	again, ok := source.(*shards.Again)
	return func(ctx context.Context, indices []string, each func(*doc.Document)) error {
		if !ok {
			return fmt.Errorf("rounds after round %d have deleted documents, which may be among these: give --repo-uri, and --rules of the following, so that they are not brought back: %w", number, fault.ErrConfig)
		}
		return again.Later(ctx, indices, func(index string) string { return follow.SnapshotAfter(rounds, number, index) }, log, each)
	}
}
