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

// Ledger records what a session creates. *rollback.Ledger is one.
type Ledger interface {
	objects.Ledger
	// IntendAliases records the aliases that an index gets when its documents are complete.
	IntendAliases(ctx context.Context, index string, aliases json.RawMessage) error
	// IntendRepository records that the repository is going to be registered on the source, RegisteredRepository the outcome.
	IntendRepository(ctx context.Context, name string) (first bool, err error)
	RegisteredRepository(ctx context.Context, name string, first, registered bool) error
	// Seal records what the created indices hold when the migration ends. Unseal is called before documents are sent to the named
	// indices again; without names, to all. Written returns those of the names that others have written to since Seal.
	Seal(ctx context.Context, own ...rollback.Own) error
	Unseal(ctx context.Context, names ...string) error
	Written(ctx context.Context, names []string) (map[string]string, error)
	// Owns reports whether an index carries the mark of the session.
	Owns(ctx context.Context, name string) (bool, error)
	// Discard removes the index of a UUID that the session created, and its record; false for another. fault.ErrConfig when an undo
	// would not.
	Discard(ctx context.Context, index, uuid string) (bool, error)
	// Around runs work that sends documents after Seal, and records what the indices hold then.
	Around(ctx context.Context, work func() error) error
}

// kindOf is the kind of the targets of an entry.
func kindOf(e plan.Entry) string {
	if e.Create {
		return string(metadata.DataStream)
	}
	return "index"
}

// Mark returns what the target indices carry that the session creates.
func (s *Session) Mark(ctx context.Context) (objects.Mark, error) {
	if s.Ledger == nil {
		return objects.Mark{}, nil
	}
	return s.Ledger.Mark(ctx)
}

// intend records target indices that are going to be created.
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

// confirm records the target indices of an entry that this session created; created are those of this process.
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

// withdraw takes back what intend recorded of target indices that were not created.
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

// register makes the repository known to the source.
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
