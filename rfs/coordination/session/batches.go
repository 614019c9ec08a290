package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// BatchSize is the number of index entries in a batch. The target indices of a batch are created by one process at a time, and only that
// process reads its entries.
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

// Divide divides the names of the indices that have entries into batches of BatchSize, once.
func (s Batches) Divide(ctx context.Context, names []string) error {
	body, err := json.Marshal(batchesBody{slices.Collect(slices.Chunk(names, BatchSize))})
	if err == nil {
		_, err = s.leases.Create(ctx, cms.Record{ID: batchesID, Kind: kindBatches, Body: body})
	}
	if err != nil {
		return fmt.Errorf("divide the indices: %w", err)
	}
	return nil
}

// All returns the names of all indices that have entries, in batches. If the store has lost the batches, it divides the indices again.
func (s Batches) All(ctx context.Context) ([][]string, error) {
	batches, err := s.all(ctx)
	if !errors.Is(err, cms.ErrNotFound) {
		return batches, err
	}
	var names []string
	for e, err := range Entries(s).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("divide the indices: %w", err)
		}
		names = append(names, e.Name)
	}
	if err := s.Divide(ctx, names); err != nil {
		return nil, err
	}
	return s.all(ctx)
}

func (s Batches) all(ctx context.Context) ([][]string, error) {
	r, err := s.leases.Record(ctx, batchesID)
	if err != nil {
		return nil, fmt.Errorf("batches of the indices: %w", err)
	}
	var b batchesBody
	if err := r.Decode(&b); err != nil {
		return nil, err
	}
	return b.Batches, nil
}

// Lease leases a batch. A *NoneAvailable reports the holder, ErrMoved that all of its entries have ended.
func (s Batches) Lease(ctx context.Context, n int, holder string) (*cms.RecordLease, error) {
	l, _, err := s.items.LeaseRecord(ctx, batchID(n), holder, cms.Terms{
		Kind: kindBatch, States: []string{PhaseNotStarted}, Window: PhaseWindow(s.items.Config().InitialLease, 1),
	})
	return l, err
}

// End releases the lease of a batch. done means that all of its entries have ended.
func (s Batches) End(ctx context.Context, l *cms.RecordLease, done bool) error {
	h := cms.HolderChange{Free: true, Moved: true}
	if done {
		h.State = PhaseCompleted
	}
	return l.End(ctx, h)
}

// Reopen reopens the batch of an index. It is called before the entry is reopened.
func (s Batches) Reopen(ctx context.Context, index string) error {
	batches, err := s.all(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n := slices.IndexFunc(batches, func(names []string) bool { return slices.Contains(names, index) })
	if n < 0 {
		return nil
	}
	return s.leases.Change(ctx, batchID(n), kindBatch, reopenBatch)
}

// reopenBatch is the change that reopens a completed batch.
func reopenBatch(_ context.Context, r cms.Record, _ time.Time, _ time.Duration) (cms.Record, cms.Result, error) {
	if r.State != PhaseCompleted {
		return r, cms.Already, nil
	}
	r.State = PhaseNotStarted
	return r, cms.Applied, nil
}
