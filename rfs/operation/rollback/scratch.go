package rollback

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Scratch records indices that a session fills only to measure, and deletes them. They are in the list of the session's
// objects, so that an undo removes indices that a killed process left. An undo checks only their UUIDs, since their documents are copies.
type Scratch struct{ Ledger *Ledger }

// Intend records that an index is about to be created that the target does not have. It returns session.ErrUndone if the session is
// being undone.
func (s *Scratch) Intend(ctx context.Context, index string) error {
	return s.Ledger.intend(ctx, Index, index, object{Scratch: true})
}

// Confirm completes the record of an index after the target has acknowledged its creation.
func (s *Scratch) Confirm(ctx context.Context, index string) error {
	return s.Ledger.confirmAs(ctx, Index, index, true)
}

// Withdraw removes the intent of an index that another client has created.
func (s *Scratch) Withdraw(ctx context.Context, index string) error {
	return s.Ledger.Withdraw(ctx, Index, index)
}

// Filled are the scratch indices of this process, and the maximum number of documents that it has sent to all of them.
type Filled struct {
	Indices []string
	Sent    int64
}

// Discard deletes all recorded scratch indices, also of earlier processes, and their records. An index without
// the prefix or the mark of a scratch index of this session, or with another UUID, stays, as does its record. All stay if the indices
// in by have more operations than documents were sent to them.
func (s *Scratch) Discard(ctx context.Context, prefix string, by Filled) error {
	if err := s.account(ctx, by); err != nil {
		return err
	}
	var all []session.Creation
	for c, err := range s.Ledger.Records.All(ctx) {
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	mark, err := s.Ledger.Mark(ctx)
	if err != nil {
		return err
	}
	u := &Undo{API: s.Ledger.API, Records: s.Ledger.Records, Mark: mark}
	for _, c := range all {
		o, err := decodeObject(c)
		if err != nil {
			return err
		}
		if !o.Scratch {
			continue
		}
		if !strings.HasPrefix(c.Name, prefix) {
			return fmt.Errorf("%s %s: its name is not one of a scratch index: %w", c.Kind, c.Name, fault.ErrConfig)
		}
		if err := u.discard(ctx, c); err != nil {
			return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
	}
	return nil
}

// account returns fault.ErrConfig if other clients wrote to scratch indices.
func (s *Scratch) account(ctx context.Context, by Filled) error {
	more := -by.Sent
	for _, index := range by.Indices {
		now, err := Sequence(ctx, s.Ledger.API, index)
		switch {
		case errors.Is(err, errAbsent):
		case errors.Is(err, fault.ErrRejected), errors.Is(err, fault.ErrConfig):
			return nil // the target does not report sequence numbers, or not to this user
		case err != nil:
			return fmt.Errorf("scratch index %s: %w", index, err)
		}
		more += operations(now)
	}
	if more > 0 {
		return fmt.Errorf("scratch indices %s: other clients wrote to them (%d operations more than documents were sent): save the written documents, then delete them by hand: %w",
			fault.Names(by.Indices, 5), more, fault.ErrConfig)
	}
	return nil
}

// discard removes the index of a record, and the record.
func (u *Undo) discard(ctx context.Context, c session.Creation) error {
	found, err := u.look(ctx, c)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].State == Gone {
		return u.Records.Forget(ctx, c.Kind, c.Name)
	}
	e := found[0]
	if e.State == Created {
		err = u.remove(ctx, &e)
	}
	if err == nil && e.State == Refused {
		err = fmt.Errorf("%s: %w", e.Reason, fault.ErrConfig)
	}
	return err
}
