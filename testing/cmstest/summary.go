package cmstest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// IndexSummary is the sum over the items of one index of the snapshot.
type IndexSummary struct {
	Index  string
	Items  int64 // all items, including handed-off ones
	Open   int64
	Leased int64 // open with a holder, whose lease may have expired
	Failed int64 // failed items
	Counts cms.Counts
}

// Summary is the sum over all items.
type Summary struct {
	Indices   []IndexSummary // by name
	Total     IndexSummary   // Index is ""
	SetupDone bool
}

// Sum returns the sums over the items. They are correct after any crash, because every item only holds the counts of its own range.
func Sum(ctx context.Context, c *cms.Coordinator) (Summary, error) {
	var s Summary
	seeded, err := c.Seeded(ctx)
	if err != nil {
		return s, err
	}
	s.SetupDone = seeded
	by := map[string]*IndexSummary{}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return s, fmt.Errorf("summary of work items: %w", err)
		}
		id, err := it.Range()
		if err != nil {
			continue // foreign document; AcquireNext reports it
		}
		x := by[id.Index]
		if x == nil {
			x = &IndexSummary{Index: id.Index}
			by[id.Index] = x
		}
		for _, sum := range []*IndexSummary{x, &s.Total} {
			sum.add(it)
		}
	}
	for _, x := range by {
		s.Indices = append(s.Indices, *x)
	}
	slices.SortFunc(s.Indices, func(a, b IndexSummary) int { return strings.Compare(a.Index, b.Index) })
	return s, nil
}

func (s *IndexSummary) add(it cms.Item) {
	s.Items++
	s.Counts = s.Counts.Add(it.Counts)
	switch {
	case it.FailedItem():
		s.Failed++
	case it.Open():
		s.Open++
		if it.Holder != "" {
			s.Leased++
		}
	}
}
