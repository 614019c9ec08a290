package cms

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Kinds of control records; an id is "kind:key".
const (
	kindIndex  = "index"
	kindTarget = "target"
	kindEvent  = "event"
	kindPhase  = "phase"
	kindMeta   = "meta"
)

func (c *Coordinator) record(ctx context.Context, id string) (r Record, err error) {
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		r, err = c.store.Record(ctx, id)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("read record %s: %w", id, err)
	}
	return r, nil
}

// forget removes a record. One that is not there is no error.
func (c *Coordinator) forget(ctx context.Context, id string) error {
	return c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		r, err := c.store.Record(ctx, id)
		if err == nil {
			err = c.store.Delete(ctx, r)
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
}

// createRecord adds a record unless one of that id exists. A conflict is believed only when the record is there: an
// index whose entry is missing would be left out without a word.
func (c *Coordinator) createRecord(ctx context.Context, r Record) (created bool, err error) {
	r.Revision = Revision{}
	if err := c.stamp(ctx, &r); err != nil {
		return false, err
	}
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		_, err := c.store.Put(ctx, r)
		if created = err == nil; !errors.Is(err, ErrConflict) {
			return err
		}
		if _, err := c.store.Record(ctx, r.ID); errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%s was refused as existing and is not there: %w", r.ID, fault.ErrUnavailable)
		} else if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("create record %s: %w", r.ID, err)
	}
	return created, nil
}

// recordOrNew returns the record of that id, which it adds when there is none. Reading comes first: nearly always it is there.
func (c *Coordinator) recordOrNew(ctx context.Context, r Record) (Record, error) {
	is, err := c.record(ctx, r.ID)
	if !errors.Is(err, ErrNotFound) {
		return is, err
	}
	if _, err := c.createRecord(ctx, r); err != nil {
		return r, err
	}
	return c.record(ctx, r.ID)
}

// putRecord writes the record over whatever is there.
func (c *Coordinator) putRecord(ctx context.Context, r Record) error {
	if err := c.stamp(ctx, &r); err != nil {
		return err
	}
	err := c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		old, err := c.store.Record(ctx, r.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r.Revision = old.Revision
		if old.CreatedAt != 0 {
			r.CreatedAt = old.CreatedAt
		}
		_, err = c.store.Put(ctx, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("write record %s: %w", r.ID, err)
	}
	return nil
}

func (c *Coordinator) stamp(ctx context.Context, r *Record) error {
	now, _, err := c.now(ctx)
	if err != nil {
		return err
	}
	r.CreatedAt, r.UpdatedAt = now.UnixMilli(), now.UnixMilli()
	return nil
}
