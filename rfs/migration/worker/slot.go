package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// small returns the limits for leasing small items as a group. ctx belongs to the slot.
func (m *Migration) small(ctx context.Context) cms.GroupLimits {
	return cms.GroupLimits{Items: engine.GroupItems, Bytes: engine.GroupBytes, More: func() bool { return ctx.Err() == nil }, Size: func(it cms.Item) int64 {
		if id, err := it.Range(); err == nil && m.size(id) <= engine.GroupBytes/engine.GroupItems {
			return m.size(id)
		}
		return 0
	}}
}

// size returns the repository size of the item's shard in bytes; 0: unknown.
func (m *Migration) size(id cms.ItemID) int64 {
	if sizes := m.sizes[id.Index]; id.Shard < len(sizes) {
		return sizes[id.Shard]
	}
	return 0
}

// slot runs leases, in sequence or small ones concurrently, until no work is left.
func (m *Migration) slot(ctx context.Context, n int) (err error) {
	group := m.Coordinator.Group(fmt.Sprintf("%s_%d", m.Holder, n), m.small(ctx))
	defer m.ahead.Keep(n, nil)
	defer func() {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.FinalReadTimeout)
		defer cancel()
		if cerr := group.Close(back); cerr != nil && !errors.Is(cerr, fault.ErrUnavailable) {
			err = errors.Join(err, cerr)
		}
	}()
	// It may have work from before it asks for some until it finds none, also between two leases of an item.
	working := false
	work := func(is bool) {
		switch {
		case is && !working:
			m.working.Add(1)
		case working && !is:
			m.working.Add(-1)
		}
		working = is
	}
	defer work(false)
	for ctx.Err() == nil {
		work(true)
		freed, started := m.freedSignal(), m.store.Now()
		leases, err := group.Acquire(ctx, m.hints())
		var none *cms.NoneAvailable
		if errors.As(err, &none) && none.Unseeded {
			if err = m.SeedOnce(ctx, fmt.Sprintf("%s_%d", m.Holder, n)); err == nil {
				continue
			}
		}
		switch {
		case errors.Is(err, cms.ErrAllDone):
			return nil
		case errors.As(err, &none):
			m.store.Over()
			work(false)
			if m.working.Load() == 0 { // otherwise the slots that work end it or do not
				m.outage.Over()
			}
			m.wait(ctx, none, freed)
			continue
		case errors.Is(err, fault.ErrUnavailable):
			if err := m.store.Check(started, err); err != nil {
				return err
			}
			m.pause(ctx, time.Second, nil)
			continue
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("acquire work: %w", err)
		}
		m.store.Over()
		// Paused indices come last in the order: if only these were leased, nothing else is free now.
		begun, paused, err := m.startable(ctx, group, leases)
		if err != nil {
			return err
		}
		if len(begun) == 0 {
			if paused {
				left, err := m.otherWork(ctx)
				if errors.Is(err, fault.ErrUnavailable) && ctx.Err() == nil {
					left, err = true, m.store.Check(started, err)
				}
				if err != nil || !left {
					return err
				}
			}
			work(false)
			m.pause(ctx, time.Second, freed)
			continue
		}
		if err := m.workAll(ctx, n, group, begun); err != nil {
			return err
		}
	}
	return nil
}

// startable releases the leases on which work may not start now: items of paused indices, and items that must be worked on alone, or next
// to such an item. If the store does not confirm a release, the lease is released again at the next acquisition. Each returned lease has
// entered Solo. After an error all leases are released.
func (m *Migration) startable(ctx context.Context, group *cms.Group, leases []*cms.Lease) (begun []*cms.Lease, paused bool, err error) {
	release := func(lease *cms.Lease) {
		rerr := lease.Release(ctx, cms.CausePause)
		group.Left(ctx)
		if rerr != nil && !errors.Is(rerr, fault.ErrUnavailable) {
			err = errors.Join(err, rerr)
		}
	}
	for _, lease := range leases {
		if m.isPaused(lease.ID.Index) {
			paused = true
		} else if err == nil && m.Solo.Enter(lease.Alone()) {
			begun = append(begun, lease)
			continue
		}
		release(lease)
	}
	if err != nil {
		for _, lease := range begun {
			release(lease)
			m.Solo.Leave()
		}
		begun = nil
	}
	return begun, paused, err
}

// workAll runs leases concurrently, each to its end. When the first of them is near its end, the next shards are opened ahead.
func (m *Migration) workAll(ctx context.Context, n int, group *cms.Group, leases []*cms.Lease) error {
	held := make([]string, len(leases))
	for i, lease := range leases {
		if held[i] = lease.Item.ID; m.size(lease.ID) > shards.AheadBytes {
			m.ahead.Keep(n, held) // the others would stay open for a long time
		}
	}
	var all errgroup.Group
	var once sync.Once
	near := func() {
		once.Do(func() { all.Go(func() error { m.openAhead(ctx, n, group, held); return nil }) })
	}
	for _, lease := range leases {
		all.Go(func() error {
			outcome, err := m.Session.Run(ctx, lease, m.ahead, near)
			group.Left(context.WithoutCancel(ctx))
			m.Solo.Leave()
			return m.afterLease(ctx, lease, outcome, err)
		})
	}
	return all.Wait()
}

// openAhead opens the shards of the items that a slot will probably lease next. It closes the other shards that the slot has opened, except
// for the items in held, on which it works.
func (m *Migration) openAhead(ctx context.Context, n int, group *cms.Group, held []string) {
	if m.Shards.VerifyFirst {
		return
	}
	ids, next := slices.Clone(held), []shards.NextItem{}
	for _, it := range group.Upcoming(ctx, m.hints(), engine.GroupItems) {
		id, err := it.Range()
		entry, known := m.KnownEntry(id.Index)
		if size := m.size(id); err == nil && known && size > 0 && entry.Trial == nil && !m.isPaused(id.Index) {
			next, ids = append(next, shards.NextItem{Item: it, ID: id, Entry: entry, Bytes: size}), append(ids, it.ID)
		}
	}
	m.ahead.Keep(n, ids)
	m.ahead.Open(ctx, n, m.Runner.Bulk.Existing, next)
}

// afterLease decides whether the run continues after a lease. If the lease ended by an outage, the outage started at the lease's last
// progress. Without progress, which may have another cause, it started at the end of the lease.
func (m *Migration) afterLease(ctx context.Context, lease *cms.Lease, outcome engine.Outcome, err error) error {
	defer m.signalFreed()
	switch {
	case outcome == engine.Completed || outcome == engine.HandedOff || outcome == engine.Failed:
		m.outage.Over()
		return nil
	case errors.Is(err, bulk.ErrTooManyRefusals), errors.Is(err, bulk.ErrIndexBlocked):
		m.pauseIndex(lease.ID.Index, err)
		return nil
	case errors.Is(err, fault.ErrUnavailable):
		started := m.outage.Now()
		if at, moved := lease.MovedAt(); moved {
			m.outage.OverAt(at)
			started = at
		}
		if err := m.outage.Check(started, err); err != nil {
			return err
		}
		m.pause(ctx, time.Second, nil)
		return nil
	case outcome == engine.Lost && ctx.Err() == nil:
		// The lease expires, and the first worker that leases the item repeats the work.
		m.Log.Warn("lease lost", "index", lease.ID.Index, "shard", lease.ID.Shard, "cursor", lease.ID.Cursor, "error", err)
		return nil
	case ctx.Err() != nil, err == nil:
		return nil
	}
	return err
}
