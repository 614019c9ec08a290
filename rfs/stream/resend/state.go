package resend

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
)

// State holds the records of a session that decide about its redrives.
type State struct {
	Name     string           // of the session
	Kept     *cms.Coordinator // nil: its state was removed
	settings map[string]string
	existing bulk.Existing
}

// Read returns the records of a session. kept is nil if its state was removed.
func Read(ctx context.Context, name string, kept *cms.Coordinator) (*State, error) {
	s := &State{Name: name, Kept: kept, existing: bulk.Overwrite}
	if kept == nil {
		return s, nil
	}
	identity, err := session.IdentityOf(kept).Read(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	if s.settings, err = session.IdentityOf(kept).Settings(ctx); err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	if s.settings[plan.FollowKey] != "" { // by their versions, documents that a later round changed stay
		s.existing = bulk.Newer
		return s, nil
	}
	if f, err := session.RoundsOf(kept).Read(ctx); err != nil || len(f.Rounds) > 1 {
		return nil, cmp.Or(err, session.ErrFollowed)
	}
	s.existing = bulk.Existing(cmp.Or(identity[phase.ExistingKey], string(bulk.Overwrite)))
	return s, nil
}

// Existing returns what a redrive does with documents that an index of the target has: as the session, but data streams only keep them.
func (s *State) Existing(client *target.Client) func(ctx context.Context, index string) (bulk.Existing, error) {
	return func(ctx context.Context, index string) (bulk.Existing, error) {
		stream, err := objects.IsStream(ctx, client, index)
		if stream {
			return bulk.Keep, err
		}
		return s.existing, err
	}
}

// started returns a fault.ErrConfig for a session without state, which would name the places of its documents.
func (s *State) started() error {
	if s.settings == nil {
		return fmt.Errorf("the session %s has no state, which names the places of its documents: give --session-name, --coordinator-host, --coordinator-bucket or --coordinator-file of the migration or import: %w", s.Name, fault.ErrConfig)
	}
	return nil
}

// Forget removes the records of documents that arrived.
func (s *State) Forget(ctx context.Context, arrived func(redrive.Document) bool) error {
	return session.RefusalsOf(s.Kept).Forget(ctx, func(d session.Refused) bool {
		return arrived(redrive.Document{Index: d.Index, ID: d.ID, Shard: d.Shard, Ordinal: d.Ordinal})
	})
}

// PoliciesWaiting returns the indices that the session gave no policy because documents were missing.
func (s *State) PoliciesWaiting(ctx context.Context) ([]string, error) {
	if s.Kept == nil {
		return nil, nil
	}
	return recorded.PoliciesWaiting(ctx, s.Kept)
}
