// Package schedule orders work by hints. Its rule: a hint may reorder, delay or shrink work, and never
// grants, extends, completes or skips it. Every function works without any hint: then work is taken in
// random order, at once.
package schedule

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Shard is an entry of the catalogue: a shard and its bytes in the repository.
type Shard struct {
	Index string `json:"index"`
	Shard int    `json:"shard"`
	Bytes int64  `json:"bytes"`
}

// Place is where a node stands in its fleet, as far as it knows.
type Place struct {
	Position int `json:"position"` // among the living nodes in order of names, from 0
	Nodes    int `json:"nodes"`    // living nodes; 0 when nothing is known
	Workers  int `json:"workers"`  // of the whole fleet; 0 when nothing is known
}

// Scheduler keeps the hints of one node. The zero value has none.
type Scheduler struct {
	// Rand gives numbers in [0, 1); nil is the process's own. A simulation gives its seed's.
	Rand func() float64

	mu        sync.Mutex
	place     Place
	catalogue []Shard                // biggest first
	share     map[cms.ItemID]float64 // of each shard's size in the biggest's, by its root item
	next      []string               // items this node handed off and would like to go on with
	taken     map[string]time.Time   // items somebody else holds or has done, and until when not to try them
	poisoned  map[string]bool        // items that broke a worker of this node
	throttled map[string]time.Time   // indices whose target refuses more for now
}

// maxTaken bounds what is remembered of others' leases; beyond, the ones that end first are forgotten.
const maxTaken = 1 << 17

// Stand tells the scheduler its place in the fleet.
func (s *Scheduler) Stand(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place = p
}

// Place is where the node stands, as it was told last.
func (s *Scheduler) Place() Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

// Learn gives the sizes of the shards. It keeps a copy in order of size.
func (s *Scheduler) Learn(shards []Shard) {
	all := slices.Clone(shards)
	slices.SortStableFunc(all, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard))
	})
	share := make(map[cms.ItemID]float64, len(all))
	for _, x := range all {
		share[cms.ItemID{Index: x.Index, Shard: x.Shard}] = float64(x.Bytes) / max(1, float64(all[0].Bytes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogue, s.share = all, share
}

// HandedOff says that a worker of this node created an item: to go on with it costs no search.
func (s *Scheduler) HandedOff(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, item)
}

// Taken says that an item need not be tried until then: somebody holds it, or it is done.
func (s *Scheduler) Taken(item string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(item, until)
}

func (s *Scheduler) take(item string, until time.Time) {
	if s.taken == nil {
		s.taken = map[string]time.Time{}
	}
	s.taken[item] = until
	if len(s.taken) > maxTaken {
		first, end := "", time.Time{}
		for id, t := range s.taken {
			if end.IsZero() || t.Before(end) {
				first, end = id, t
			}
		}
		delete(s.taken, first)
	}
}

// Poisoned says that an item broke a worker here: another node should try it first.
func (s *Scheduler) Poisoned(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poisoned == nil {
		s.poisoned = map[string]bool{}
	}
	s.poisoned[item] = true
}

// IsPoisoned says whether an item is known to have broken a worker.
func (s *Scheduler) IsPoisoned(item string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.poisoned[item]
}

// Throttled says that the target of an index refuses more until then.
func (s *Scheduler) Throttled(index string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.throttled == nil {
		s.throttled = map[string]time.Time{}
	}
	s.throttled[index] = until
}

// Propose gives up to n items that are worth trying before a search: what this node handed off, then
// the biggest shards of the node's own share of the catalogue. They may be taken, done or not exist.
// Each is proposed once and not again before its time in Taken.
func (s *Scheduler) Propose(now time.Time, n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := min(n, len(s.next))
	ids := slices.Clone(s.next[:k])
	s.next = s.next[k:]
	if s.place.Nodes == 0 {
		return ids
	}
	for rank := s.place.Position; rank < len(s.catalogue) && len(ids) < n; rank += s.place.Nodes {
		x := s.catalogue[rank]
		id := cms.ItemID{Index: x.Index, Shard: x.Shard}.String()
		if s.free(id, x.Index, now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// free says whether nothing is known against an item; s.mu is held.
func (s *Scheduler) free(id, index string, now time.Time) bool {
	return !s.taken[id].After(now) && !s.throttled[index].After(now) && !s.poisoned[id]
}

// jitter is the share of chance in the order, so that equal hints do not send all nodes to one item.
const jitter = 0.2

// fresh is how long a successor that nobody has leased yet is left to the node that created it.
const fresh = 15 * time.Second

// Choose orders the candidates of a search, the best first: big shards before small ones. It leaves out,
// until their time, items that somebody else holds, those of a throttled target, and successors that
// their creator is about to go on with. Items that broke a worker here come last. Without hints all
// candidates stay, in the order they had.
func (s *Scheduler) Choose(items []cms.Item, now time.Time) []cms.Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.place.Nodes == 0 && len(s.catalogue) == 0 {
		return items
	}
	chance := s.Rand
	if chance == nil {
		chance = rand.Float64
	}
	score := make(map[string]float64, len(items))
	chosen := items[:0]
	for _, it := range items {
		id, err := it.Range()
		if err == nil && !s.mayTry(it, id, now) {
			continue
		}
		v := jitter * chance()
		if err == nil {
			v += s.share[cms.ItemID{Index: id.Index, Shard: id.Shard}]
		}
		if s.poisoned[it.ID] {
			v -= 2
		}
		score[it.ID] = v
		chosen = append(chosen, it)
	}
	slices.SortStableFunc(chosen, func(a, b cms.Item) int { return cmp.Compare(score[b.ID], score[a.ID]) })
	return chosen
}

// mayTry says whether nothing keeps an item back now; s.mu is held.
func (s *Scheduler) mayTry(it cms.Item, id cms.ItemID, now time.Time) bool {
	until, known := s.taken[it.ID]
	if !known && s.place.Nodes > 1 && id.Cursor > 0 && it.AcquiredAt == 0 {
		s.take(it.ID, now.Add(fresh))
		return false
	}
	return !until.After(now) && !s.throttled[id.Index].After(now)
}

// Shares of what a fleet may ask of the coordination store, in operations per second. Recording
// progress takes another 100 (every worker once in workers ÷ 100 seconds). Workers that start one after
// the other also hand off one after the other, at four operations each.
const (
	startBudget   = 15
	handOffBudget = 4 * startBudget
)

// Pause is how long one node waits between two acquisitions while it fills its slots, so that a whole
// fleet that starts at once keeps within its budget. 0 without a hint.
func (p Place) Pause() time.Duration {
	return time.Duration(float64(p.Nodes) / startBudget * float64(time.Second))
}

// Exponent is the least lease exponent of a new item, so that the hand-offs of the fleet keep within
// their budget: one costs four operations. 0 without a hint.
func (p Place) Exponent(initial time.Duration) int {
	if p.Workers == 0 || initial <= 0 {
		return 0
	}
	wanted := float64(p.Workers) * 4 / handOffBudget // seconds
	return min(bits.Len(uint(math.Ceil(wanted/initial.Seconds()))-1), cms.MaxExponent)
}
