package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene"
)

// Summary says what became of every document. All numbers are sums over the items
// of the coordination store, so that they also add up after a crash.
type Summary struct {
	Snapshot string `json:"snapshot"`
	Session  string `json:"session"`
	Complete bool   `json:"complete"` // no item is open
	// Counts of all indices: live = indexed + failed + filtered.
	Totals  cms.Counts     `json:"totals"`
	Indices []IndexSummary `json:"indices"`
	// LeftOut are system indices that were not asked for.
	LeftOut []string `json:"left_out,omitempty"`
	// Problems are items that could not be migrated.
	Problems []Problem `json:"problems,omitempty"`
	// NotVerified are repository files whose checksum could not be computed, because
	// nothing in them lives or only a part of them is needed.
	NotVerified []string `json:"not_verified,omitempty"`
	FailedDir   string   `json:"failed_documents,omitempty"`
	// SafeFrom is when others may write to the migrated indices, by the clock of the
	// coordination (Quiet); absent while an item is open.
	SafeFrom *time.Time `json:"safe_to_write_from,omitempty"`
}

// IndexSummary is the outcome for one index of the snapshot.
type IndexSummary struct {
	Index   string   `json:"index"`
	Targets []string `json:"targets"`
	Shards  int      `json:"shards"`
	Done    int      `json:"shards_done"`
	Damaged int      `json:"shards_failed"`
	Open    int      `json:"items_open"`
	// Reduced says why the stored sources are not what was indexed.
	Reduced string `json:"reduced_source,omitempty"`
	Paused  string `json:"paused,omitempty"`
	cms.Counts
}

// Problem is an item that could not be migrated, and why.
type Problem struct {
	Index  string `json:"index"`
	Shard  int    `json:"shard"`
	Item   string `json:"item"`
	Reason string `json:"reason"`
}

// shardChain collects the items of one shard.
type shardChain struct {
	open, failed bool
	checks       []lucene.Check
}

// summarize sums up the items of a coordination store.
func summarize(ctx context.Context, coordinator *cms.Coordinator, plan *Plan) (*Summary, error) {
	s := &Summary{Snapshot: plan.Snapshot, Session: plan.Session, LeftOut: plan.LeftOut, Complete: true}
	byIndex := map[string]*IndexSummary{}
	for i := range plan.Indices {
		p := &plan.Indices[i]
		byIndex[p.Name] = &IndexSummary{Index: p.Name, Targets: p.Entry.Naming.Targets(), Shards: p.Entry.Shards, Reduced: p.Entry.Reduced}
	}
	chains := map[string]map[int]*shardChain{}
	var quiet Quiet
	for item, err := range coordinator.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
		quiet.Add(item)
		id, err := item.Range()
		x := byIndex[id.Index]
		if err != nil || x == nil {
			continue // no item of this plan
		}
		if chains[x.Index] == nil {
			chains[x.Index] = map[int]*shardChain{}
		}
		chain := chains[x.Index][id.Shard]
		if chain == nil {
			chain = &shardChain{}
			chains[x.Index][id.Shard] = chain
		}
		if err := s.addItem(x, chain, id, item); err != nil {
			return nil, err
		}
	}
	if quiet.Open == 0 && !quiet.Until.IsZero() {
		from := quiet.Until.UTC()
		s.SafeFrom = &from
	}
	for _, x := range byIndex {
		s.addChains(x, chains[x.Index])
		s.Totals = s.Totals.Add(x.Counts)
		s.Indices = append(s.Indices, *x)
	}
	slices.SortFunc(s.Indices, func(a, b IndexSummary) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(s.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Item, b.Item))
	})
	slices.Sort(s.NotVerified)
	s.NotVerified = slices.Compact(s.NotVerified)
	return s, nil
}

func (s *Summary) addItem(x *IndexSummary, chain *shardChain, id cms.ItemID, item cms.Item) error {
	switch {
	case item.FailedItem():
		chain.failed = true
		s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: id.Shard, Item: item.ID, Reason: item.Failure})
	case item.Open():
		chain.open = true
		x.Open++
		s.Complete = false
	}
	x.Counts = x.Counts.Add(item.Counts)
	if item.Checks == "" {
		return nil
	}
	var parts []verification
	if err := json.Unmarshal([]byte(item.Checks), &parts); err != nil {
		return fmt.Errorf("checksums of %v: %w: %w", id, err, fault.ErrCorrupt)
	}
	for _, p := range parts {
		chain.checks = append(chain.checks, p.Files...)
		for _, name := range p.NotVerified {
			s.NotVerified = append(s.NotVerified, fmt.Sprintf("%s/%d: %s", x.Index, id.Shard, name))
		}
	}
	return nil
}

// addChains decides per shard, and combines the checksums of ranges that several items read.
func (s *Summary) addChains(x *IndexSummary, chains map[int]*shardChain) {
	for shard, chain := range chains {
		if chain.open {
			continue
		}
		for _, v := range lucene.CombineChecks(chain.checks) {
			switch {
			case v.Err != nil && !chain.failed:
				chain.failed = true
				s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: shard, Reason: v.Err.Error()})
			case !v.Verified:
				s.NotVerified = append(s.NotVerified, fmt.Sprintf("%s/%d: %s", x.Index, shard, v.File))
			}
		}
		if chain.failed {
			x.Damaged++
		} else {
			x.Done++
		}
	}
}
