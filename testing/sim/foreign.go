package sim

import (
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// foreignQueue fills the store with what another engine left of the first n shards of a
// queue that it seeded. It counts ordinals in its own way, so of a chain that it did not
// complete nothing counts as arrived. One of its workers may still be alive, and requests
// of dead ones are still on their way.
func (w *world) foreignQueue(n int) {
	s, r := w.server, w.dice.about("foreign")
	now := s.clock().Unix()
	setup := foreignItem(cms.SetupID, now-100)
	setup.CompletedAt = now - 7000
	s.create([]cms.Item{setup})
	for id := range w.roots() {
		if n--; n < 0 {
			root := foreignItem(id.String(), 0)
			s.create([]cms.Item{root})
			continue
		}
		w.foreignChain(id, now, n%6)
		if chance(r, 0.3) { // the bulk request that creates a successor
			late := id
			late.Cursor = 1 + r.Int64N(w.ends[shardOf(id)]+1)
			time.AfterFunc(between(r, 0, time.Hour), func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.create([]cms.Item{foreignItem(late.String(), 0)})
			})
		}
	}
	s.journal = nil // the store does not forget what was there before
}

// foreignChain leaves one shard in a shape: completed in one go or in two, never begun,
// handed off before or after the successor was created, or begun in the middle.
func (w *world) foreignChain(id cms.ItemID, now int64, shape int) {
	r := w.dice.about("chain", id)
	end := now - 1 - r.Int64N(3600)
	if chance(r, 0.1) {
		end = now + r.Int64N(600)
	}
	next := id
	next.Cursor = 1 + r.Int64N(w.ends[shardOf(id)])
	root, child := foreignItem(id.String(), end), foreignItem(next.String(), end)
	items := []cms.Item{root}
	switch shape {
	case 0:
		items[0].CompletedAt = now - 5000
	case 1:
		child.CompletedAt = now - 5000
		fallthrough
	case 2:
		items[0].CompletedAt = now - 6000
		fallthrough
	case 3:
		items = append(items, child)
		fallthrough
	case 4:
		items[0].Successors = child.ID
	}
	w.server.create(items)
	if shape <= 1 {
		w.keep(shardOf(id))
	}
	for _, it := range items {
		if it.Open() && it.Expiration > 0 { // its holder finishes, late
			time.AfterFunc(between(r, 0, time.Hour), func() { w.foreignFinish(it) })
		}
	}
}

// foreignFinish is the last request of a worker of the other engine: it completes its item
// unless another worker took it meanwhile.
func (w *world) foreignFinish(it cms.Item) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	_, v, err := w.server.apply(it.ID, cms.Complete{Holder: it.Holder, Successors: it.Successors})
	if err != nil || v != cms.Applied {
		return
	}
	id, err := it.Range()
	if err != nil {
		return
	}
	for next := []string{cms.ItemID{Index: id.Index, Shard: id.Shard}.String()}; len(next) > 0; next = next[1:] {
		at, ok := w.server.items[next[0]]
		if !ok || at.Open() || at.Engine != "" || at.Status != "" {
			return // the other engine did not do all of the shard
		}
		next = append(next, at.SuccessorIDs()...)
	}
	w.keep(shardOf(id))
}

// foreignReturns lets a worker of the other engine take a free shard from its begin, hand off in the middle, and die; it
// moved nothing that counts.
func (w *world) foreignReturns() {
	s, r := w.server, w.dice.about("return")
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().Unix()
	for id := range w.roots() {
		it, ok := s.items[id.String()]
		if !ok || !it.Open() || it.Expiration+5 > now || it.Successors != "" || w.ends[shardOf(id)] < 2 || chance(r, 0.5) {
			continue
		}
		next := id
		next.Cursor = 1 + r.Int64N(w.ends[shardOf(id)]-1)
		s.note(it.ID)
		dead := foreignItem(it.ID, now)
		it.Holder, it.Expiration, it.Successors = dead.Holder, now, next.String()
		s.items[it.ID] = it
		return
	}
}

// keep notes that the other engine did the whole shard.
func (w *world) keep(s shardKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[s] = true
}

// foreignItem is an item held, or last held, until end (epoch seconds); 0 = free.
func foreignItem(id string, end int64) cms.Item {
	it := cms.NewItem(id, "java", 0)
	if end != 0 {
		it.Holder, it.Expiration, it.Exponent = fmt.Sprintf("host_0b2f6c1e-9a37-4d52-8f0e-%012x", uint64(end)), end, 1
	}
	return it
}
