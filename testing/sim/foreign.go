package sim

import (
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// foreignQueue fills the store with what another engine left of the first n shards of a
// queue that it seeded. It counts ordinals in its own way, so of a chain that it did not
// complete nothing counts as arrived. One of its workers may still be alive, and requests
// of dead ones are still on their way.
func (m *migration) foreignQueue(n int) {
	s, w := m.server, m.w
	now := s.clock().Unix()
	setup := foreignItem(cms.SetupID, now-100)
	setup.CompletedAt = now - 7000
	s.create([]cms.Item{setup})
	for id := range m.roots() {
		if n--; n < 0 {
			root := foreignItem(id.String(), 0)
			s.create([]cms.Item{root})
			continue
		}
		m.foreignChain(id, now, n%6)
		if w.chance(0.3) { // the bulk request that creates a successor
			late := id
			late.Cursor = 1 + w.r.Int64N(m.cfg.Ordinal+1)
			w.After(w.between(0, time.Hour), func() { s.create([]cms.Item{foreignItem(late.String(), 0)}) })
		}
	}
	s.journal = nil // the store does not forget what was there before
}

// foreignChain leaves one shard in a shape: completed in one go or in two, never begun,
// handed off before or after the successor was created, or begun in the middle.
func (m *migration) foreignChain(id cms.ItemID, now int64, shape int) {
	end := now - 1 - m.w.r.Int64N(3600)
	if m.w.chance(0.1) {
		end = now + m.w.r.Int64N(600)
	}
	next := id
	next.Cursor = 1 + m.w.r.Int64N(m.cfg.Ordinal)
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
	m.server.create(items)
	if shape <= 1 {
		m.keep(id)
	}
	for _, it := range items {
		if it.Open() && it.Expiration > 0 { // its holder finishes, late
			m.w.After(m.w.between(0, time.Hour), func() { m.foreignFinish(it) })
		}
	}
}

// foreignFinish is the last request of a worker of the other engine: it completes its item
// unless somebody took that meanwhile.
func (m *migration) foreignFinish(it cms.Item) {
	_, v, err := m.server.apply(it.ID, cms.Complete{Holder: it.Holder, Successors: it.Successors})
	if err != nil || v != cms.Applied {
		return
	}
	id, err := it.Range()
	if err != nil {
		return
	}
	for next := []string{shardOf(id).String()}; len(next) > 0; next = next[1:] {
		at, ok := m.server.items[next[0]]
		if !ok || at.Open() || at.Engine != "" || at.Status != "" {
			return // the other engine did not do all of the shard
		}
		next = append(next, at.SuccessorIDs()...)
	}
	m.keep(shardOf(id))
}

// keep says that the other engine did the whole shard.
func (m *migration) keep(id cms.ItemID) {
	m.kept[id] = true
	for i := range m.target.arrived[id] {
		m.target.arrived[id][i] = true
	}
}

// foreignItem is an item held, or last held, until end (epoch seconds); 0 = free.
func foreignItem(id string, end int64) cms.Item {
	it := cms.NewItem(id, "java", 0)
	if end != 0 {
		it.Holder, it.Expiration, it.Exponent = fmt.Sprintf("host_0b2f6c1e-9a37-4d52-8f0e-%012x", uint64(end)), end, 1
	}
	return it
}
