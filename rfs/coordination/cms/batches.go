package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// BatchSize is how many index entries make a batch: the target indices of a batch are created by one process at a time, which is
// the only one that reads its entries.
const BatchSize = 64

const (
	kindBatches = "indexbatches"
	kindBatch   = "indexbatch"
	batchesID   = kindBatches + ":all"
)

func batchID(n int) string { return kindBatch + ":" + strconv.Itoa(n) }

type batchesBody struct {
	Batches [][]string `json:"batches"`
}

// DivideIndices divides the names of the indices that have entries into batches of BatchSize, once.
func (c *Coordinator) DivideIndices(ctx context.Context, names []string) error {
	body, err := json.Marshal(batchesBody{slices.Collect(slices.Chunk(names, BatchSize))})
	if err == nil {
		_, err = c.createRecord(ctx, Record{ID: batchesID, Kind: kindBatches, Body: body})
	}
	if err != nil {
		return fmt.Errorf("divide the indices: %w", err)
	}
	return nil
}

// IndexBatches returns the names of all indices that have entries, in batches. In a session that a former release began they are
// divided now.
func (c *Coordinator) IndexBatches(ctx context.Context) ([][]string, error) {
	batches, err := c.indexBatches(ctx)
	if !errors.Is(err, ErrNotFound) {
		return batches, err
	}
	var names []string
	for e, err := range c.IndexEntries(ctx) {
		if err != nil {
			return nil, fmt.Errorf("divide the indices: %w", err)
		}
		names = append(names, e.Name)
	}
	if err := c.DivideIndices(ctx, names); err != nil {
		return nil, err
	}
	return c.indexBatches(ctx)
}

func (c *Coordinator) indexBatches(ctx context.Context) ([][]string, error) {
	r, err := c.record(ctx, batchesID)
	if err != nil {
		return nil, fmt.Errorf("batches of the indices: %w", err)
	}
	var b batchesBody
	if err := r.Decode(&b); err != nil {
		return nil, err
	}
	return b.Batches, nil
}

// LeaseBatch leases a batch. A *NoneAvailable reports who has it; ErrPhaseMoved that all of its entries have ended.
func (c *Coordinator) LeaseBatch(ctx context.Context, n int, holder string) (*RecordLease, error) {
	l, _, err := c.leaseRecord(ctx, batchID(n), holder, Terms{
		Kind: kindBatch, States: []string{PhaseNotStarted}, Window: PhaseWindow(c.cfg.InitialLease, 1),
	})
	return l, err
}

// EndBatch ends the lease of a batch. done states that all of its entries have ended.
func (c *Coordinator) EndBatch(ctx context.Context, l *RecordLease, done bool) error {
	h := HolderChange{Free: true, Moved: true}
	if done {
		h.State = PhaseCompleted
	}
	return endLease(ctx, l, h)
}

// endLease releases a lease. One that is lost needs no end: another process does the work again.
func endLease(ctx context.Context, l *RecordLease, h HolderChange) error {
	err := l.Change(ctx, h)
	if errors.Is(err, fault.ErrLeaseLost) {
		return nil
	}
	return err
}

// ReopenBatch makes the batch of an index one to be worked on, before its entry is.
func (c *Coordinator) ReopenBatch(ctx context.Context, index string) error {
	batches, err := c.indexBatches(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n := slices.IndexFunc(batches, func(names []string) bool { return slices.Contains(names, index) })
	if n < 0 {
		return nil
	}
	return c.leases.Change(ctx, batchID(n), kindBatch, reopenBatch)
}

// reopenBatch is the change of a batch that is done.
func reopenBatch(_ context.Context, r Record, _ time.Time, _ time.Duration) (Record, Result, error) {
	if r.State != PhaseCompleted {
		return r, Already, nil
	}
	r.State = PhaseNotStarted
	return r, Applied, nil
}
