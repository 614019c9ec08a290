package cms

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// KindEvent is the kind of the records of events.
const KindEvent = "event"

// Now returns the store's clock and its maximum error.
func (s *Leases) Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error) {
	err = s.Retry(ctx, func(ctx context.Context) error {
		now, maxErr, err = s.store.Now(ctx)
		return err
	})
	if err != nil {
		return now, maxErr, fmt.Errorf("clock of the coordination store: %w", err)
	}
	return now, maxErr, nil
}

// Retry calls f again, after a pause, while it returns fault.ErrUnavailable or ErrConflict and the budget lasts.
func (s *Leases) Retry(ctx context.Context, f func(context.Context) error) error {
	return s.retries.do(ctx, s.budget, f)
}

// Pause blocks for a random time between lo and hi. It returns the error of ctx if that ends first.
func (s *Leases) Pause(ctx context.Context, lo, hi time.Duration) error {
	return s.clock.Sleep(ctx, s.retries.rand.between(lo, hi))
}

// Record returns the record with an id, or ErrNotFound.
func (s *Leases) Record(ctx context.Context, id string) (r Record, err error) {
	err = s.Retry(ctx, func(ctx context.Context) error {
		r, err = s.store.Record(ctx, id)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("read record %s: %w", id, err)
	}
	return r, nil
}

// List yields the records of a kind in order of ids, and retries while the store does not answer.
func (s *Leases) List(ctx context.Context, kind string) iter.Seq2[Record, error] {
	all := func(ctx context.Context) iter.Seq2[Record, error] { return s.store.List(ctx, kind) }
	return eachOnce(ctx, s, all, func(r Record) string { return r.ID })
}

// Forget removes a record. It returns no error when the record does not exist.
func (s *Leases) Forget(ctx context.Context, id string) error {
	return s.Retry(ctx, func(ctx context.Context) error {
		r, err := s.store.Record(ctx, id)
		if err == nil {
			err = s.store.Delete(ctx, r)
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
}

// Create adds a record unless its id exists, and reports whether it did. After a conflict it checks that the record exists: an index
// without an entry would be left out silently.
func (s *Leases) Create(ctx context.Context, r Record) (created bool, err error) {
	r.Revision = Revision{}
	if err := s.stamp(ctx, &r); err != nil {
		return false, err
	}
	err = s.Retry(ctx, func(ctx context.Context) error {
		_, err := s.store.Put(ctx, r)
		if created = err == nil; !errors.Is(err, ErrConflict) {
			return err
		}
		return s.exists(ctx, r.ID)
	})
	if err != nil {
		return false, fmt.Errorf("create record %s: %w", r.ID, err)
	}
	return created, nil
}

// exists returns fault.ErrUnavailable for a record that was refused as existing but does not exist.
func (s *Leases) exists(ctx context.Context, id string) error {
	_, err := s.store.Record(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s was refused as existing and does not exist: %w", id, fault.ErrUnavailable)
	}
	return err
}

// ReadOrCreate returns the record with the id of r, without a revision if this call has added it. It reads first, because the record nearly
// always exists.
func (s *Leases) ReadOrCreate(ctx context.Context, r Record) (Record, error) {
	is, err := s.Record(ctx, r.ID)
	if !errors.Is(err, ErrNotFound) {
		return is, err
	}
	if created, err := s.Create(ctx, r); err != nil || created {
		return r, err
	}
	return s.Record(ctx, r.ID)
}

// Put writes the record over the stored one.
func (s *Leases) Put(ctx context.Context, r Record) error {
	if err := s.stamp(ctx, &r); err != nil {
		return err
	}
	err := s.Retry(ctx, func(ctx context.Context) error {
		old, err := s.store.Record(ctx, r.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r.Revision = old.Revision
		if old.CreatedAt != 0 {
			r.CreatedAt = old.CreatedAt
		}
		_, err = s.store.Put(ctx, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("write record %s: %w", r.ID, err)
	}
	return nil
}

// Update applies a pure change to a record, again when another writer was first. A missing record is passed with id and kind only.
func (s *Leases) Update(ctx context.Context, id, kind string, f func(Record, time.Time) (Record, Result)) (Changed, error) {
	return s.change(ctx, s.budget, id, kind, pure(func(r Record, now time.Time, _ time.Duration) (Record, Result) { return f(r, now) }))
}

func (s *Leases) stamp(ctx context.Context, r *Record) error {
	now, _, err := s.Now(ctx)
	if err != nil {
		return err
	}
	r.CreatedAt, r.UpdatedAt = now.UnixMilli(), now.UnixMilli()
	return nil
}

// Decoded yields the decoded records, until the first error.
func Decoded[T any](records iter.Seq2[Record, error], decode func(Record) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r, err := range records {
			var x T
			if err == nil {
				x, err = decode(r)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}
