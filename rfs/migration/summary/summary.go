package summary

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Summary accounts for every document. All numbers are sums over the items of the coordination store, so they are correct after a crash.
type Summary struct {
	Snapshot string `json:"snapshot"`
	Session  string `json:"session"`
	Complete bool   `json:"complete"` // every phase of the run has ended, and no item is open
	// DoneBefore reports whether the session was complete before this process started.
	DoneBefore bool `json:"done_before"`
	// Phases are the phases that have started, in order.
	Phases []Phase `json:"phases"`
	// Globals is the outcome for templates and other objects that belong to no index.
	Globals *phase.GlobalsRecord `json:"cluster_metadata,omitempty"`
	// Events are failures, retries and repairs that were each reported once.
	Events []Event `json:"events,omitempty"`
	// Counts of all indices: live = indexed + failed + filtered.
	Totals cms.Counts `json:"totals"`
	// Redriven is the number of indexed documents that failed first and that rfsd redrive has delivered.
	Redriven int64   `json:"redriven,omitempty"`
	Indices  []Index `json:"indices"`
	// LeftOut are system indices that were not requested.
	LeftOut []string `json:"left_out,omitempty"`
	// Problems are items that could not be migrated.
	Problems []Problem `json:"problems,omitempty"`
	// NotVerified are repository files whose checksum could not be computed, because they hold no live documents or only a part of them was
	// needed.
	NotVerified []string `json:"not_verified,omitempty"`
	FailedDir   string   `json:"failed_documents,omitempty"`
	// Changes counts the changes since the former snapshot of a followed cluster; nil: it is not followed.
	Changes *difference.Totals `json:"changes,omitempty"`
	// Unchanged is the number of indices that are the same as in the former snapshot. They are not in Indices.
	Unchanged int `json:"indices_unchanged,omitempty"`
	// Vanished is the number of indices that only the former snapshot of a followed cluster has.
	Vanished int `json:"indices_vanished,omitempty"`
	// SafeFrom is the time from which others may write to the migrated indices, by the clock of the
	// coordination (Quiet); absent while an item is open.
	SafeFrom *time.Time `json:"safe_to_write_from,omitempty"`
}

// Index is the outcome for one index of the snapshot.
type Index struct {
	Index   string   `json:"index"`
	Targets []string `json:"targets"`
	Shards  int      `json:"shards"`
	Done    int      `json:"shards_done"`
	Damaged int      `json:"shards_failed"`
	Open    int      `json:"items_open"`
	// State is COMPLETED if the target indices exist, and FAILED if they could not be created.
	State string `json:"state"`
	Error string `json:"error,omitempty"` // why they could not be created, or why the last attempt failed
	// Created are the targets that this session created; the others existed before.
	Created []string `json:"created,omitempty"`
	// Differs are properties of the target indices that were not requested, for example from templates of the target.
	Differs []string `json:"differs,omitempty"`
	// AliasesWait means that aliases are withheld because documents are missing.
	AliasesWait bool `json:"aliases_wait,omitempty"`
	// RefusedAliases are aliases that the target rejected after all documents had arrived.
	RefusedAliases []progress.RefusedAlias `json:"refused_aliases,omitempty"`
	// RefusedPolicies are policies that could not be attached after all documents had arrived.
	RefusedPolicies []progress.RefusedPolicy `json:"refused_policies,omitempty"`
	// Reduced is the reason why the stored sources differ from the indexed ones.
	Reduced string `json:"reduced_source,omitempty"`
	// Stream is the treatment of the backing index of a data stream.
	Stream string `json:"data_stream,omitempty"`
	Paused string `json:"paused,omitempty"`
	// Arrival is the comparison of the target with the documents sent; nil before the audit, and without a target.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
	// Now holds the counts of this run if the session was complete before it; nil: not counted again.
	Now *progress.Arrival `json:"now,omitempty"`
	// Tried holds the measurements of a trial run; nil in other runs.
	Tried *shards.IndexTried `json:"trial,omitempty"`
	// Redriven is the number of documents in Indexed that failed first and that rfsd redrive has delivered.
	Redriven int64 `json:"redriven,omitempty"`
	cms.Counts
	follows bool // the session belongs to a chain of snapshots
}

// Phase is the outcome of one phase.
type Phase struct {
	Phase    string `json:"phase"` // name in --phases
	State    string `json:"state"` // of the record
	Attempts int    `json:"attempts,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Event is a failure, retry or repair that was reported once.
type Event struct {
	Subject string    `json:"subject"`
	Code    string    `json:"code"`
	Detail  string    `json:"detail,omitempty"`
	Time    time.Time `json:"time"`
}

// Problem is an item that could not be migrated, and why.
type Problem struct {
	Index  string `json:"index"`
	Shard  int    `json:"shard"` // -1: the whole index
	Item   string `json:"item"`
	Reason string `json:"reason"`
	// Undelivered is the number of documents of the shard, nested ones included, that did not arrive; 0: unknown.
	Undelivered int64 `json:"documents_not_delivered,omitempty"`
}

// shardChain collects the items of one shard.
type shardChain struct {
	open, failed bool
	checks       []lucene.Check
	counts       cms.Counts
	tried        *shards.Tried // nil except in a trial run
	ordinals     int64         // ordinals of the shard; set in a trial run
	changes      *difference.Totals
	live         int64 // documents of a failed shard; 0: unknown
}

// Of returns the summary of a session, from the records of its phases, indices and items.
func Of(ctx context.Context, of *phase.Session) (*Summary, error) {
	coordinator := of.Coordinator
	s := &Summary{Complete: true}
	if p := of.Planned(); p != nil {
		s.Snapshot, s.Session, s.LeftOut = p.Snapshot, p.Session, p.LeftOut
	}
	if err := s.addPhases(ctx, of); err != nil {
		return nil, err
	}
	byIndex, err := indexSummaries(ctx, of)
	if err != nil {
		return nil, err
	}
	chains := map[string]map[int]*shardChain{}
	var quiet progress.WriteBarrier
	for item, err := range coordinator.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
		quiet.Add(item)
		id, err := item.Range()
		x := byIndex[id.Index]
		if err != nil || x == nil {
			continue // not an item of this protocol
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
	if quiet.Open == 0 && !quiet.SafeFrom.IsZero() {
		from := quiet.SafeFrom.UTC()
		s.SafeFrom = &from
	}
	again, err := progress.ReadRedrives(ctx, coordinator)
	if err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(byIndex)) {
		x := byIndex[name]
		x.Redriven = again.Take(x.Targets, x.Counts.Failed)
		x.Counts.Failed, x.Counts.Indexed = x.Counts.Failed-x.Redriven, x.Counts.Indexed+x.Redriven
		s.Redriven += x.Redriven
		s.addChains(x, chains[x.Index])
		s.addArrival(x)
		for _, r := range x.RefusedAliases {
			s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: -1, Reason: r.Problem()})
		}
		for _, r := range x.RefusedPolicies {
			s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: -1, Reason: r.Problem()})
		}
		if x.State == session.PhaseFailed && chains[x.Index] == nil { // it has no items
			s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: -1, Reason: x.Error})
		}
		s.Totals = s.Totals.Add(x.Counts)
		s.Indices = append(s.Indices, *x)
	}
	slices.SortFunc(s.Indices, func(a, b Index) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(s.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Item, b.Item))
	})
	slices.Sort(s.NotVerified)
	s.NotVerified = slices.Compact(s.NotVerified)
	return s, nil
}

// addPhases adds the records of the phases and the events.
func (s *Summary) addPhases(ctx context.Context, of *phase.Session) error {
	for _, name := range session.PhaseNames() {
		row, err := phase.RowFor(name, "")
		if err != nil {
			return err
		}
		p, err := session.PhasesOf(of.Coordinator).Read(ctx, name)
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		if of.Phases.Has(row.Phase) && p.State != session.PhaseCompleted {
			s.Complete = false
		}
		if p.State == "" {
			continue
		}
		s.Phases = append(s.Phases, Phase{Phase: row.Phase, State: p.State, Attempts: p.Attempts, Error: p.Error})
		switch {
		case name == session.SnapshotPhase:
			r, err := phase.DecodeSnapshot(p.Body)
			if err != nil {
				return err
			}
			s.Snapshot = r.Name
		case name == session.MetadataPhase && len(p.Body) > 0:
			s.Globals = &phase.GlobalsRecord{}
			if err := json.Unmarshal(p.Body, s.Globals); err != nil {
				return fmt.Errorf("record of the metadata: %w: %w", err, fault.ErrCorrupt)
			}
		case name == session.IndexPhase:
			r, err := phase.DecodeIndices(p.Body)
			if err != nil {
				return err
			}
			if s.Unchanged, s.Vanished = r.Unchanged, r.Vanished; r.Indices == 0 && r.Unchanged > 0 {
				s.Changes = &difference.Totals{}
			}
		}
	}
	for r, err := range session.List(ctx, of.Coordinator, "event") {
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		e := Event{Time: time.UnixMilli(r.CreatedAt).UTC()}
		if err := r.Decode(&e); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		s.Events = append(s.Events, e)
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return nil
}

// indexSummaries returns the indices of the session, without the counts of their documents.
func indexSummaries(ctx context.Context, of *phase.Session) (map[string]*Index, error) {
	entries, err := of.Entries(ctx)
	if err != nil {
		return nil, err
	}
	by := make(map[string]*Index, len(entries))
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		by[e.Name] = &Index{
			Index: e.Name, Targets: entry.Naming.Targets(), Shards: e.Shards, Reduced: entry.Reduced, Stream: entry.Note(),
			follows: entry.Version != 0,
			State:   e.State, Error: e.Error, Created: entry.Ours, AliasesWait: len(entry.Late) > 0 && len(entry.RefusedAliases) == 0, RefusedAliases: entry.RefusedAliases, RefusedPolicies: entry.RefusedPolicies, Differs: entry.Differs, Arrival: entry.Arrival,
		}
	}
	return by, nil
}

func (s *Summary) addItem(x *Index, chain *shardChain, id cms.ItemID, item cms.Item) error {
	switch {
	case item.FailedItem():
		chain.failed = true
		s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: id.Shard, Item: item.ID, Reason: item.Failure})
	case item.Open():
		chain.open = true
		x.Open++
		s.Complete = false
	}
	x.Counts, chain.counts = x.Counts.Add(item.Counts), chain.counts.Add(item.Counts)
	if item.Checks == "" {
		return nil
	}
	var parts []shards.Checks
	if err := json.Unmarshal([]byte(item.Checks), &parts); err != nil {
		return fmt.Errorf("checksums of %s: %w: %w", id.Name(), err, fault.ErrCorrupt)
	}
	for _, p := range parts {
		if p.Tried != nil {
			if chain.tried == nil {
				chain.tried = &shards.Tried{}
			}
			chain.tried.Add(*p.Tried)
			chain.ordinals = p.Ordinals
		}
		if p.Changes != nil {
			chain.changes = p.Changes
		}
		chain.live = max(chain.live, p.Live)
		chain.checks = append(chain.checks, p.Files...)
		for _, name := range p.NotVerified {
			s.NotVerified = append(s.NotVerified, fmt.Sprintf("%s/%d: %s", x.Index, id.Shard, name))
		}
	}
	return nil
}

// addChanges adds the changes of a shard.
func (s *Summary) addChanges(d *difference.Totals) {
	if d == nil {
		return
	}
	if s.Changes == nil {
		s.Changes = &difference.Totals{}
	}
	*s.Changes = s.Changes.Add(*d)
}

// addUndelivered adds the number of documents that did not arrive to the first problem of a shard.
func (s *Summary) addUndelivered(x *Index, shard int, chain *shardChain) {
	i := slices.IndexFunc(s.Problems, func(p Problem) bool { return p.Index == x.Index && p.Shard == shard })
	if i >= 0 && chain.live > 0 {
		s.Problems[i].Undelivered = max(chain.live-chain.counts.Live, 0)
	}
}

// addArrival adds the missing documents of an index. If its target is missing, none of its shards counts as done.
func (s *Summary) addArrival(x *Index) {
	if x.Arrival == nil || x.Arrival.Problem == "" {
		return
	}
	s.Problems = append(s.Problems, Problem{Index: x.Index, Shard: -1, Reason: x.Arrival.Problem})
	if x.Arrival.Gone {
		x.Done, x.Damaged = 0, x.Shards
	}
}

// addTried adds the measurements of a trial run for a shard. It assumes that the whole shard has as many documents per ordinal as the
// sample.
func (x *Index) addTried(chain *shardChain) {
	if chain.tried == nil {
		return
	}
	if x.Tried == nil {
		x.Tried = &shards.IndexTried{}
	}
	x.Tried.Add(*chain.tried)
	if chain.tried.Scanned == 0 {
		return
	}
	whole := float64(chain.ordinals) / float64(chain.tried.Scanned)
	bytes := int64(float64(chain.counts.Bytes) * whole)
	x.Tried.Documents += int64(float64(chain.counts.Live) * whole)
	x.Tried.Bytes += bytes
	x.Tried.Largest = max(x.Tried.Largest, bytes)
}

// addChains adds the outcome of each shard, and combines the checksums of file ranges that several items read.
func (s *Summary) addChains(x *Index, chains map[int]*shardChain) {
	for shard, chain := range chains {
		x.addTried(chain)
		if chain.changes == nil && x.follows { // all of its documents were sent
			deleted := chain.counts.Deleted - chain.counts.Kept // Kept only counts deletions
			chain.changes = &difference.Totals{Inserted: chain.counts.Indexed - deleted, Deleted: deleted}
		}
		s.addChanges(chain.changes)
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
			s.addUndelivered(x, shard, chain)
		} else {
			x.Done++
		}
	}
}
