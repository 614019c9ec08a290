package phase

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Ledger records what a session creates. *rollback.Ledger implements it.
type Ledger interface {
	objects.Ledger
	// IntendAliases records the aliases that an index gets once its documents are complete.
	IntendAliases(ctx context.Context, index string, aliases json.RawMessage) error
	// IntendRepository records that the repository is about to be registered on the source; RegisteredRepository records the outcome.
	IntendRepository(ctx context.Context, name string) (first bool, err error)
	RegisteredRepository(ctx context.Context, name string, first, registered bool) error
	// Seal records what the created indices hold at the end of the migration. Unseal must be called before documents are sent to the named
	// indices again, or to any index if no names are given. Written returns the named indices to which others have written since Seal.
	Seal(ctx context.Context, own ...rollback.Own) error
	Unseal(ctx context.Context, names ...string) error
	Written(ctx context.Context, names []string) (map[string]string, error)
	// Owns reports whether an index carries the mark of the session.
	Owns(ctx context.Context, name string) (bool, error)
	// Discard removes the index with this UUID and its record if the session created it, and otherwise returns false. It returns a
	// fault.ErrConfig if an undo would keep the index.
	Discard(ctx context.Context, index, uuid string) (bool, error)
	// Around runs work, which sends documents after Seal, and records what the indices hold afterwards.
	Around(ctx context.Context, work func() error) error
}

// kindOf returns the kind of an entry's targets.
func kindOf(e plan.Entry) string {
	if e.Create {
		return string(metadata.DataStream)
	}
	return "index"
}

// Mark returns the mark of the session, which the target indices that it creates carry.
func (s *Session) Mark(ctx context.Context) (objects.Mark, error) {
	if s.Ledger == nil {
		return objects.Mark{}, nil
	}
	return s.Ledger.Mark(ctx)
}

// intend records target indices that are about to be created.
func (s *Session) intend(ctx context.Context, e plan.Entry, absent []string) error {
	if s.Ledger == nil {
		return nil
	}
	for _, name := range absent {
		if err := s.Ledger.Intend(ctx, kindOf(e), name); err != nil {
			return err
		}
	}
	return nil
}

// confirm records the target indices of an entry that this session created; created are the ones created by this process.
func (s *Session) confirm(ctx context.Context, e plan.Entry, created []string) error {
	if s.Ledger == nil {
		return nil
	}
	for _, name := range e.Ours {
		record := s.Ledger.Decide
		if slices.Contains(created, name) {
			record = s.Ledger.Confirm
		}
		if err := record(ctx, kindOf(e), name); err != nil {
			return err
		}
	}
	return nil
}

// withdraw removes the records of intend for target indices that were not created.
func (s *Session) withdraw(ctx context.Context, e plan.Entry, absent []string) error {
	if s.Ledger == nil {
		return nil
	}
	for _, name := range absent {
		if err := s.Ledger.Withdraw(ctx, kindOf(e), name); err != nil {
			return err
		}
	}
	return nil
}

// register registers the repository on the source and records it.
func (s *Session) register(ctx context.Context) error {
	if s.Ledger == nil {
		_, err := s.Snapshots.Register(ctx)
		return err
	}
	first, err := s.Ledger.IntendRepository(ctx, s.Snapshot.Repository)
	if err != nil {
		return err
	}
	registered, err := s.Snapshots.Register(ctx)
	if err != nil {
		return err
	}
	return s.Ledger.RegisteredRepository(ctx, s.Snapshot.Repository, first, registered)
}
