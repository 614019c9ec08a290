package progress

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// States of shards, indices and skipped phases; other phases have the states of their records.
const (
	NotStarted = "NOT_STARTED"
	InProgress = "IN_PROGRESS"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
	Skipped    = "SKIPPED"
)

// maxExamples limits the examples of a failure.
const maxExamples = 5

// Sum returns the state of the session, and the items that can be decoded, sorted by id. It is a pure function of r.
func (r *Reading) Sum() (*Migration, []cms.Item) {
	x := &reader{
		m: &Migration{
			Repository: r.Repository, Snapshot: r.Snapshot, ReadAt: r.At.UTC(), Intent: r.Intent, Undone: r.Undone,
		},
		now: r.At, indices: map[string]*index{}, reasons: map[string]*Failure{},
	}
	for _, rec := range sortedByID(r.Indices, recordID) {
		x.entry(rec)
	}
	for _, it := range sortedByID(r.Items, func(it cms.Item) string { return it.ID }) {
		x.item(it)
	}
	for _, rec := range sortedByID(r.Phases, recordID) {
		x.phase(rec)
	}
	x.conclude(r.Redrives())
	x.phases()
	if x.m.Rounds = following(r.Rounds); x.m.Rounds != nil {
		if lag, ok := r.Rounds.Lag(r.At); ok && !r.Undone {
			seconds := lag.Seconds()
			x.m.Lag = &seconds
		}
	}
	if x.m.Following = r.Followed && (x.m.Rounds == nil || x.m.Rounds.Finished == nil); x.m.Following {
		x.m.SafeFrom = nil
	}
	if r.Cutover.State != "" {
		shown := CutoverOf(r.Cutover)
		x.m.Cutover = &shown
	}
	return x.m, x.items
}

func recordID(r cms.Record) string { return r.ID }

// sortedByID returns a copy of all, sorted by id.
func sortedByID[T any](all []T, id func(T) string) []T {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int { return strings.Compare(id(a), id(b)) })
	return all
}

// reader derives a Migration from one reading of the store.
type reader struct {
	m        *Migration
	now      time.Time
	items    []cms.Item
	indices  map[string]*index
	reasons  map[string]*Failure
	activity Activity
	barrier  WriteBarrier
	entries  int64 // index entries
	created  int64 // number of entries whose creation has ended
}

// index is the state of one index during a read.
type index struct {
	Index
	shards int     // as recorded in the entry; 0 without one
	bytes  []int64 // of its shards, if known
	ends   map[int][]int64
	chains map[int][]cms.Item
}

// entryBody holds the fields of an index entry's body that are read (rfs/migration/worker writes it).
type entryBody struct {
	Name    string          `json:"name"`
	Shards  int             `json:"shards"`
	Ends    map[int][]int64 `json:"ends"` // of the parts of split shards
	Locator struct {
		Naming struct {
			Index string   `json:"index"`
			Types []string `json:"types,omitempty"`
			Multi string   `json:"multi,omitempty"`
		} `json:"naming"`
		Bytes   []int64 `json:"bytes,omitempty"`
		Reduced string  `json:"reduced,omitempty"`
		// Arrival is the content of the target after all documents were sent.
		Arrival *Arrival `json:"arrival,omitempty"`
		// RefusedAliases are aliases that the target refused after all documents had arrived.
		RefusedAliases []RefusedAlias `json:"refused_aliases,omitempty"`
		// RefusedPolicies are policies that were not attached then.
		RefusedPolicies []RefusedPolicy `json:"refused_policies,omitempty"`
	} `json:"locator"`
}

func (r *reader) entry(rec cms.Record) {
	var b entryBody
	if json.Unmarshal(rec.Body, &b) != nil || b.Name == "" {
		return // the worker of the index reports it
	}
	x := r.index(b.Name)
	x.shards, x.bytes, x.ends, x.Reduced, x.OnTarget = b.Shards, b.Locator.Bytes, b.Ends, b.Locator.Reduced, b.Locator.Arrival
	n := b.Locator.Naming
	switch {
	case n.Multi == "split":
		for _, t := range n.Types {
			x.Targets = append(x.Targets, n.Index+"_"+t)
		}
		slices.Sort(x.Targets)
	case n.Index != "":
		x.Targets = []string{n.Index}
	}
	r.entries++
	switch rec.State {
	case Completed:
		r.created++
		if a := b.Locator.Arrival; a != nil && a.Problem != "" {
			x.State, x.Error = Failed, a.Problem
			r.failure(a.Problem, "index "+b.Name)
		}
		for _, refused := range b.Locator.RefusedAliases {
			x.Error = refused.Problem()
			r.failure(x.Error, "index "+b.Name)
		}
		for _, refused := range b.Locator.RefusedPolicies {
			x.Error = refused.Problem()
			r.failure(x.Error, "index "+b.Name)
		}
	case Failed:
		r.created++
		x.State, x.Error = Failed, rec.Error
		r.failure(rec.Error, "index "+b.Name)
	}
}

func (r *reader) index(name string) *index {
	x := r.indices[name]
	if x == nil {
		x = &index{Index: Index{Name: name}, chains: map[int][]cms.Item{}}
		r.indices[name] = x
	}
	return x
}

func (r *reader) item(it cms.Item) {
	if cms.IsSetup(it.ID) {
		r.barrier.Add(it)
		r.m.Seeded = !it.Open()
		return
	}
	id, err := it.Range()
	if err != nil {
		r.m.Foreign = append(r.m.Foreign, it.ID)
		return
	}
	r.barrier.Add(it)
	r.items = append(r.items, it)
	x := r.index(id.Index)
	x.chains[id.Shard] = append(x.chains[id.Shard], it)
}

func (r *reader) failure(reason, example string) {
	if reason == "" {
		reason = "no reason was recorded"
	}
	f := r.reasons[reason]
	if f == nil {
		f = &Failure{Reason: reason}
		r.reasons[reason] = f
	}
	if f.Count++; len(f.Examples) < maxExamples && !slices.Contains(f.Examples, example) {
		f.Examples = append(f.Examples, example)
	}
}

// conclude derives shards, indices and totals from the items.
func (r *reader) conclude(again *Redrives) {
	density := r.density()
	for _, name := range sortedKeys(r.indices) {
		x := r.indices[name]
		for n := range max(x.shards, highest(x.chains)) {
			s := r.shard(x, n, density)
			x.Shards = append(x.Shards, s)
			x.Counts.add(s.Counts)
		}
		x.Counts.Redrive(again.Take(x.Targets, x.Counts.Failed))
		x.conclude()
		if a := x.OnTarget; a != nil && a.Problem != "" && !a.Shared {
			x.Counts.Undelivered += max(a.Expected-a.Found, 0)
		}
		r.m.Totals.add(x.Counts)
		r.m.Indices = append(r.m.Indices, x.Index)
	}
	for _, reason := range sortedKeys(r.reasons) {
		r.m.Failures = append(r.m.Failures, *r.reasons[reason])
	}
	slices.SortStableFunc(r.m.Failures, func(a, b Failure) int { return int(b.Count - a.Count) })
	r.activity.Set(r.m)
	if r.m.Seeded && r.barrier.Open == 0 {
		from := r.barrier.SafeFrom.UTC()
		r.m.SafeFrom = &from
	}
}

func (x *index) conclude() {
	states := map[string]int{}
	for _, s := range x.Shards {
		states[s.State]++
		if s.State == Failed && x.Error == "" {
			x.Error = s.Error
		}
	}
	switch {
	case x.State == Failed:
	case states[Failed] > 0 && states[InProgress]+states[NotStarted] == 0:
		x.State = Failed
	case states[Completed] == len(x.Shards) && len(x.Shards) > 0:
		x.State = Completed
	case states[NotStarted] == len(x.Shards):
		x.State = NotStarted
	default:
		x.State = InProgress
	}
}

func (c *Counts) add(o Counts) {
	c.Items += o.Items
	c.ItemsOpen += o.ItemsOpen
	c.Leased += o.Leased
	c.Expired += o.Expired
	c.ItemsBad += o.ItemsBad
	c.Shards += o.Shards
	c.ShardsDone += o.ShardsDone
	c.ShardsFailed += o.ShardsFailed
	c.Undelivered += o.Undelivered
	c.Uncounted += o.Uncounted
	c.Indexed += o.Indexed
	c.Failed += o.Failed
	c.Redriven += o.Redriven
	c.Filtered += o.Filtered
	c.Reduced += o.Reduced
	c.Retried += o.Retried
	c.Resent += o.Resent
	c.Replaced += o.Replaced
	c.Kept += o.Kept
	c.Bytes += o.Bytes
	c.BytesDone += o.BytesDone
	c.BytesLost += o.BytesLost
	c.SourceBytes += o.SourceBytes
}

func highest(chains map[int][]cms.Item) int {
	n := 0
	for shard := range chains {
		n = max(n, shard+1)
	}
	return n
}
