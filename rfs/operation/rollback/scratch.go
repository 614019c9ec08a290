package rollback

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Scratch keeps the record of indices that a session fills only to measure, and deletes them. They stand in the list of what the
// session created, so that an undo removes what a killed process left; it goes by their UUIDs, since their documents are copies.
type Scratch struct{ Ledger *Ledger }

// Intend records that an index is going to be created which the target does not have. cms.ErrUndone when the session is being undone.
func (s *Scratch) Intend(ctx context.Context, index string) error {
	return s.Ledger.intend(ctx, Index, index, object{Scratch: true})
}

// Confirm completes the record of an index whose creation the target has just acknowledged.
func (s *Scratch) Confirm(ctx context.Context, index string) error {
	return s.Ledger.confirmAs(ctx, Index, index, true)
}

// Withdraw takes back what Intend recorded of an index that another client has created.
func (s *Scratch) Withdraw(ctx context.Context, index string) error {
	return s.Ledger.Withdraw(ctx, Index, index)
}

// Discard deletes all recorded scratch indices that the target has and forgets them, also those of an earlier process. An index with
// another UUID, or without the mark of a scratch index of this session, stays, and so does its record.
func (s *Scratch) Discard(ctx context.Context) error {
	var all []cms.Creation
	for c, err := range s.Ledger.Records.Creations(ctx) {
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
		if err := u.discard(ctx, c); err != nil {
			return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
	}
	return nil
}

// discard removes the index of a record, and the record.
func (u *Undo) discard(ctx context.Context, c cms.Creation) error {
	found, err := u.look(ctx, c)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].State == Gone {
		return u.Records.ForgetCreation(ctx, c.Kind, c.Name)
	}
	e := found[0]
	if e.State == Created {
		err = u.remove(ctx, &e)
	}
	if err == nil && e.State == Refused {
		err = errors.New(e.Reason)
	}
	return err
}
