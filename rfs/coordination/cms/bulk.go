package cms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits of one request.
const (
	batchRecords = 500
	batchBytes   = 4 << 20
)

// CreateRecords adds each record as Leases.Create does, in batches, and calls created, unless nil, with each record that it added. The
// first error of records ends it. After an error any of the records may have been added.
func (c *Coordinator) CreateRecords(ctx context.Context, records iter.Seq2[Record, error], created func(Record)) error {
	var batch []Record
	size := 0
	for r, err := range records {
		if err != nil {
			return err
		}
		n := len(r.ID) + len(r.Error) + len(r.Body)
		if len(batch) == batchRecords || len(batch) > 0 && size+n > batchBytes {
			if err := c.createBatch(ctx, batch, created); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
		batch, size = append(batch, r), size+n
	}
	return c.createBatch(ctx, batch, created)
}

func (c *Coordinator) createBatch(ctx context.Context, batch []Record, created func(Record)) error {
	if len(batch) == 0 {
		return nil
	}
	now, _, err := c.leases.Now(ctx)
	if err != nil {
		return err
	}
	for i := range batch {
		batch[i].Revision, batch[i].CreatedAt, batch[i].UpdatedAt = Revision{}, now.UnixMilli(), now.UnixMilli()
	}
	left := batch
	err = c.leases.Retry(ctx, func(ctx context.Context) error {
		errs, err := c.store.PutAll(ctx, left)
		if err != nil {
			return err
		}
		var again []Record
		var failed error
		for i, r := range left {
			err := errs[i]
			switch {
			case err == nil:
				if created != nil {
					created(r)
				}
				continue
			case errors.Is(err, ErrConflict):
				err = c.leases.exists(ctx, r.ID)
			}
			if err != nil {
				again, failed = append(again, r), cmp.Or(failed, err)
			}
		}
		left = again
		return failed
	})
	if err != nil {
		return fmt.Errorf("create %d records: %w", len(batch), err)
	}
	return nil
}

// Events stores one event of the code for each subject and its detail, in batches. Events that exist already are kept.
func (c *Coordinator) Events(ctx context.Context, code string, details iter.Seq2[string, string]) error {
	return c.CreateRecords(ctx, func(yield func(Record, error) bool) {
		for subject, detail := range details {
			if r, err := eventRecord(subject, code, detail); !yield(r, err) {
				return
			}
		}
	}, nil)
}

// createAll creates the items that do not exist yet, in batches, and returns how many it created.
func (c *Coordinator) createAll(ctx context.Context, items iter.Seq[Item]) (created int, err error) {
	var batch []Item
	for it := range items {
		if len(it.ID) > MaxIDLength || len(it.Task) > MaxTask {
			return created, fmt.Errorf("name %q is too long for a work item: %w", it.IndexName, fault.ErrUnsupported)
		}
		if len(batch) == batchRecords {
			n, err := c.create(ctx, batch)
			if created += n; err != nil {
				return created, err
			}
			batch = batch[:0]
		}
		batch = append(batch, it)
	}
	if len(batch) == 0 {
		return created, nil
	}
	n, err := c.create(ctx, batch)
	return created + n, err
}

// FailedIndex is an index that does not exist on the target.
type FailedIndex struct {
	Name   string
	Shards int
	Reason string
}

// CreateFailedItems creates the items of indices that do not exist on the target as FAILED with their reason, so that they are never
// leased.
func (c *Coordinator) CreateFailedItems(ctx context.Context, indices iter.Seq[FailedIndex]) error {
	now, _, err := c.leases.Now(ctx)
	if err != nil {
		return err
	}
	_, err = c.createAll(ctx, func(yield func(Item) bool) {
		for x := range indices {
			for n := range x.Shards {
				it := NewItem(ItemID{Index: x.Name, Shard: n}.String(), c.cfg.Creator, 0)
				it.IndexName, it.Status, it.Failure, it.CompletedAt = x.Name, StatusFailed, x.Reason, now.Unix()
				if !yield(it) {
					return
				}
			}
		}
	})
	return err
}
