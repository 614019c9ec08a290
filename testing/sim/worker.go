package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// target is where documents go. It remembers which ordinals of a shard arrived.
type target struct {
	arrived map[cms.ItemID][]bool // by shard (cursor 0)
	sent    int                   // ordinals taken, again ones too
}

func shardOf(id cms.ItemID) cms.ItemID { id.Cursor = 0; return id }

func (t *target) take(id cms.ItemID, from, to int64) {
	got := t.arrived[shardOf(id)]
	for i := from; i < to; i++ {
		got[i] = true
	}
	t.sent += int(to - from)
}

// batch is a bulk request under way.
type batch struct {
	from, to int64
	back     time.Duration // when its answer comes
	ok       bool
}

// worker is one process: it leases items until none is left.
type worker struct {
	m     *migration
	p     *Process
	c     *cms.Coordinator
	name  string
	batch int64
}

func (k *worker) run() {
	ctx := context.Background()
	for !k.seed(ctx) {
		k.p.park(10 * time.Second)
	}
	for {
		l, err := k.c.AcquireNext(ctx, k.name, nil)
		var none *cms.NoneAvailable
		switch {
		case errors.Is(err, cms.ErrAllDone):
			if _, done, err := k.c.Finish(ctx); err == nil && done {
				return
			}
			k.p.park(k.m.w.between(time.Second, 10*time.Second))
		case errors.As(err, &none):
			k.p.park(k.m.w.between(time.Second, 30*time.Second))
		case errors.Is(err, cms.ErrClockSkew):
			k.m.skewed++
			k.p.park(5 * time.Minute)
			k.p.skew = 0 // somebody set the clock
		case err != nil:
			k.p.park(k.m.w.between(time.Second, 20*time.Second))
		default:
			k.m.leases++
			k.work(ctx, l)
		}
	}
}

func (k *worker) seed(ctx context.Context) bool {
	err := k.c.SeedOnce(ctx, k.name, func(ctx context.Context) error {
		for name, n := range k.m.shards() {
			if _, err := k.c.CreateIndexEntry(ctx, cms.IndexEntry{Name: name, State: cms.PhaseCompleted, Shards: n, Body: json.RawMessage(`{}`)}); err != nil {
				return err
			}
		}
		_, err := k.c.SeedItems(ctx, k.m.roots())
		return err
	}, nil)
	if errors.Is(err, cms.ErrClockSkew) {
		k.m.skewed++
		k.p.skew = 0
	}
	return err == nil
}

// work moves the range of an item: batches under way at the same time, answered in
// any order; the watermark is the prefix of which everything is answered.
func (k *worker) work(ctx context.Context, l *cms.Lease) {
	w, m := k.m.w, k.m
	start := k.p.Read().Boot
	k.p.last = start
	k.p.park(w.between(time.Second, m.cfg.Lease/10)) // shard setup
	if w.chance(0.05) {
		k.p.park(w.between(time.Second, m.cfg.Lease))
	}
	setup := k.p.Read().Boot - start
	end := int64(len(m.target.arrived[shardOf(l.ID)]))
	next, mark, finished := l.Start(), l.Start(), int64(0)
	done := map[int64]int64{} // answered batches beyond the watermark
	var flying []batch
	nextReport := k.p.Read().Boot + 10*time.Second
	report := func() cms.Work {
		n := mark - l.Start()
		return cms.Work{Counts: cms.Counts{Ordinals: n, Live: n, Indexed: n, Bytes: 100 * n}, Setup: setup}
	}
	for mark < end {
		if boot := k.p.Read().Boot; boot-k.p.last > 2*time.Second {
			if err := l.Validate(ctx); err != nil {
				k.lose(ctx, l, err)
				return
			}
		}
		k.p.last = k.p.Read().Boot
		if l.UntilTrigger() <= 0 {
			k.handoff(ctx, l, m.cursor(l.Start(), mark, finished), report())
			return
		}
		for len(flying) < 4 && next < end {
			if err := l.Check(); err != nil {
				k.lose(ctx, l, err)
				return
			}
			b := batch{from: next, to: min(next+k.batch, end)}
			m.send(k, l, &b)
			flying = append(flying, b)
			next = b.to
		}
		if k.p.last >= nextReport {
			nextReport = k.p.last + w.between(10*time.Second, 15*time.Second)
			if err := l.Progress(ctx, mark, report()); errors.Is(err, fault.ErrLeaseLost) {
				k.lose(ctx, l, err)
				return
			}
			k.p.last = k.p.Read().Boot
		}
		i := soonest(flying)
		b := flying[i]
		flying = append(flying[:i], flying[i+1:]...)
		if wait := b.back - w.now; wait > time.Second { // the health check looks every second
			flying = append(flying, b)
			k.p.park(time.Second)
			continue
		} else if wait > 0 {
			k.p.park(wait)
		}
		if !b.ok { // asked again
			if err := l.Check(); err != nil {
				k.lose(ctx, l, err)
				return
			}
			m.send(k, l, &b)
			flying = append(flying, b)
			continue
		}
		finished += b.to - b.from
		done[b.from] = b.to
		for to, ok := done[mark]; ok; to, ok = done[mark] {
			delete(done, mark)
			mark = to
		}
	}
	if err := l.Complete(ctx, report()); err != nil {
		k.lose(ctx, l, err)
	}
}

func (k *worker) handoff(ctx context.Context, l *cms.Lease, mark int64, w cms.Work) {
	err := l.Handoff(ctx, mark, w)
	if errors.Is(err, cms.ErrNoProgress) {
		err = l.Release(ctx, cms.CauseNone)
	}
	k.lose(ctx, l, err)
}

// lose ends the work on an item that could not be ended as it should.
func (k *worker) lose(ctx context.Context, l *cms.Lease, err error) {
	if err != nil && !errors.Is(err, fault.ErrLeaseLost) && k.m.w.chance(0.5) {
		_ = l.Release(ctx, cms.CauseOutage) // best effort; it runs out by itself otherwise
	}
}

func soonest(flying []batch) int {
	best := 0
	for i, b := range flying {
		if b.back < flying[best].back {
			best = i
		}
	}
	return best
}

// send starts a bulk request. It may be applied after its sender is dead.
func (m *migration) send(k *worker, l *cms.Lease, b *batch) {
	m.checkExclusive(l)
	if m.poison[shardOf(l.ID)] {
		k.p.Kill() // this document crashes the process
		k.p.park(0)
	}
	trip := m.w.between(50*time.Millisecond, 2*time.Second)
	if m.w.chance(0.02) {
		trip = m.w.between(time.Second, 3*time.Minute) // a slow one: others overtake it
	}
	b.ok = !m.w.chance(m.cfg.Faults.Bulk)
	b.back = m.w.now + trip
	id, from, to := l.ID, b.from, b.to
	if b.ok || m.w.chance(0.5) {
		m.w.After(trip-10*time.Millisecond, func() { m.target.take(id, from, to) })
	}
}

// checkExclusive notes a request that is started while somebody else holds the item.
func (m *migration) checkExclusive(l *cms.Lease) {
	it := m.server.items[l.Item.ID]
	if it.Holder != l.Holder && it.Open() && it.Holder != "" && it.Expiration*1000 > m.server.clock().UnixMilli() {
		m.trespasses = append(m.trespasses, fmt.Sprintf("%s sends for %s which %s holds", l.Holder, l.Item.ID, it.Holder))
	}
}
