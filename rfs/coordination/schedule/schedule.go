// Package schedule orders work by hints. A hint may reorder, delay or shrink work; it never grants, extends, completes or skips it. Without
// hints every function works: work is then done in random order, without delay.
package schedule

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Shard is a shard and its size in the repository.
type Shard struct {
	Index string `json:"index"`
	Shard int    `json:"shard"`
	Bytes int64  `json:"bytes"`
}

// NodePosition is the position of a node in its fleet, as far as it knows.
type NodePosition struct {
	Position int `json:"position"` // among the live nodes sorted by name, from 0
	Nodes    int `json:"nodes"`    // number of live nodes; 0 if unknown
	Workers  int `json:"workers"`  // of the whole fleet; 0 if unknown
}

// maxNodes and maxFleet limit the values of a position, because other nodes report them.
const (
	maxNodes = 4096
	maxFleet = 1 << 20 // workers
)

// clamp returns p with all values within valid limits.
func (p NodePosition) clamp() NodePosition {
	if p.Nodes <= 0 {
		return NodePosition{Workers: min(max(p.Workers, 0), maxFleet)}
	}
	p.Nodes, p.Workers = min(p.Nodes, maxNodes), min(max(p.Workers, 0), maxFleet)
	p.Position = min(max(p.Position, 0), p.Nodes-1)
	return p
}

// Scheduler holds the hints of one node. The zero value has none.
type Scheduler struct {
	mu        sync.Mutex
	position  NodePosition
	shards    []Shard              // biggest first
	next      []string             // items that this node handed off, to continue first
	taken     map[string]time.Time // items not to propose until then: leased, done, or after a crash of a worker
	busy      map[string]bool      // items that were leased or done at the last read of the store
	busyUntil time.Time            // when busy expires
}

// maxTaken limits the entries of taken; the entries that expire first are dropped.
const maxTaken = 1 << 17

// SetPosition sets the node's position in the fleet.
func (s *Scheduler) SetPosition(p NodePosition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = p.clamp()
}

// Position returns the node's position, as last set.
func (s *Scheduler) Position() NodePosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

// SetShards sets the sizes of the shards. It keeps a copy, sorted by size.
func (s *Scheduler) SetShards(shards []Shard) {
	all := slices.Clone(shards)
	slices.SortStableFunc(all, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = all
}

// AddHandedOff proposes an item that a worker of this node created, so that it can be continued without a search.
func (s *Scheduler) AddHandedOff(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = append(s.next, item); len(s.next) > maxTaken {
		s.next = s.next[1:]
	}
}

// MarkTaken excludes an item from proposals until a time: it is leased or done, or it crashed a worker.
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

// MarkBusy sets the items that were leased or done at the last read of the store. They are not proposed until a time.
func (s *Scheduler) MarkBusy(busy map[string]bool, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.busyUntil = busy, until
}

// IsBusy reports whether an item must not be proposed now.
func (s *Scheduler) IsBusy(item string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isBusy(item, now)
}

func (s *Scheduler) isBusy(item string, now time.Time) bool {
	return s.taken[item].After(now) || s.busy[item] && s.busyUntil.After(now)
}

// Propose returns up to n items to try before a search: items that this node handed off, then the biggest shards of the node's share. They
// may be leased, done or missing. Items that are marked taken or busy are omitted.
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
