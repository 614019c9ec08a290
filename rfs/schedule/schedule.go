// Package schedule orders work by hints. Its rule: a hint may reorder, delay or shrink work, and never
// grants, extends, completes or skips it. Every function works without any hint: then work is taken in
// random order, at once.
package schedule

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// ShardDuration is an entry of the catalogue: a shard and its bytes in the repository.
type Shard struct {
	Index string `json:"index"`
	Shard int    `json:"shard"`
	Bytes int64  `json:"bytes"`
}

// Position is where a node stands in its fleet, as far as it knows.
type NodePosition struct {
	Position int `json:"position"` // among the living nodes in order of names, from 0
	Nodes    int `json:"nodes"`    // living nodes; 0 when nothing is known
	Workers  int `json:"workers"`  // of the whole fleet; 0 when nothing is known
}

// maxNodes and maxFleet bound what a place may say: it comes from what others tell.
const (
	maxNodes = 4096
	maxFleet = 1 << 20 // workers
)

// clamp gives what can be true of a place, or none.
func (p NodePosition) clamp() NodePosition {
	if p.Nodes <= 0 {
		return NodePosition{Workers: min(max(p.Workers, 0), maxFleet)}
	}
	p.Nodes, p.Workers = min(p.Nodes, maxNodes), min(max(p.Workers, 0), maxFleet)
	p.Position = min(max(p.Position, 0), p.Nodes-1)
	return p
}

// Scheduler keeps the hints of one node. The zero value has none.
type Scheduler struct {
	mu        sync.Mutex
	position  NodePosition
	shards    []Shard              // biggest first
	next      []string             // items this node handed off and would like to go on with
	taken     map[string]time.Time // items not to propose until then: somebody holds them, they are done, or they broke a worker
	busy      map[string]bool      // items that nobody could take when the store was read last
	busyUntil time.Time            // when that counts no more
}

// maxTaken bounds what is remembered of others' leases; beyond, the ones that end first are forgotten.
const maxTaken = 1 << 17

// SetPosition tells the scheduler its place in the fleet.
func (s *Scheduler) SetPosition(p NodePosition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = p.clamp()
}

// Position is where the node stands, as it was told last.
func (s *Scheduler) Position() NodePosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

// SetShards gives the sizes of the shards. It keeps a copy in order of size.
func (s *Scheduler) SetShards(shards []Shard) {
	all := slices.Clone(shards)
	slices.SortStableFunc(all, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = all
}

// AddHandedOff says that a worker of this node created an item: to go on with it costs no search.
func (s *Scheduler) AddHandedOff(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = append(s.next, item); len(s.next) > maxTaken {
		s.next = s.next[1:]
	}
}

// MarkTaken says that an item need not be proposed until then: somebody holds it, it is done, or it broke a worker.
func (s *Scheduler) MarkTaken(item string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// MarkBusy says which items nobody could take when the store was read: others hold them, or they are done. It counts until then.
func (s *Scheduler) MarkBusy(busy map[string]bool, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.busyUntil = busy, until
}

// IsBusy says whether an item is not to be proposed now.
func (s *Scheduler) IsBusy(item string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isBusy(item, now)
}

func (s *Scheduler) isBusy(item string, now time.Time) bool {
	return s.taken[item].After(now) || s.busy[item] && s.busyUntil.After(now)
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
	if s.position.Nodes == 0 {
		return ids
	}
	for rank := s.position.Position; rank < len(s.shards) && len(ids) < n; rank += s.position.Nodes {
		x := s.shards[rank]
		id := cms.ItemID{Index: x.Index, Shard: x.Shard}.String()
		if !s.isBusy(id, now) {
			ids = append(ids, id)
		}
	}
	return ids
}
