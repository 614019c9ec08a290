package importer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/cms/primitive"
)

const (
	leaderLock = "import"
	// Windows that are ahead of the workers: perWorker for each of the fleet, within bounds.
	perWorker  = 3
	leastAhead = 8
	mostAhead  = 512
	// The leader looks at the partitions again after firstTick when something happened, later and
	// later, at most lastTick, when nothing does.
	firstTick = 250 * time.Millisecond
	lastTick  = 2 * time.Second
	// A node gives a sign of life every nodeBeat, and is taken off the list after nodeAge without one: as in a
	// fleet of daemons, which may be on the same list.
	nodeBeat = 30 * time.Second
	nodeAge  = 5 * time.Minute
)

// leader cuts windows ahead of the workers and keeps the account. Whoever holds the leader's lock is one.
type leader struct {
	*Import
	book  notebook
	state *state
	swept time.Duration // when the list of nodes was cleaned, on the boot-time clock
}

// lead takes part in the election until the import is complete or ctx ends.
func (m *Import) lead(ctx context.Context) error {
	silence := m.newSilence()
	for {
		err := m.locks.Lead(ctx, leaderLock, m.Lease, func(ctx context.Context) error {
			l := &leader{Import: m, book: notebook{store: m.Store}}
			err := l.reign(ctx, silence)
			if errors.Is(err, errStale) {
				m.Log.Info("leader begins anew", "error", err)
				err = nil
			}
			return err
		})
		if ctx.Err() != nil || err == nil && m.Seen().Complete {
			return nil
		}
		if err := silence.judge(err); err != nil {
			return err
		}
		if m.Clock.Sleep(ctx, lastTick) != nil {
			return nil
		}
	}
}

// reign leads until the import is complete.
func (l *leader) reign(ctx context.Context, silence *silence) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	for tick := firstTick; ; tick = min(2*tick, lastTick) {
		changed, err := l.step(ctx)
		if err != nil {
			return err
		}
		if changed {
			tick = firstTick
		}
		silence.over()
		l.see(l.state)
		if l.state.complete() {
			return nil
		}
		if err := l.Clock.Sleep(ctx, tick); err != nil {
			return err
		}
	}
}

// begin reads what earlier leaders left, and makes the partitions that the last of them may not have made.
func (l *leader) begin(ctx context.Context) error {
	var err error
	if l.state, err = l.book.load(ctx); err != nil {
		return err
	}
	if l.state == nil {
		if err := l.checkDigests(ctx); err != nil {
			return err
		}
		l.state = &state{Version: taskVersion, Digest: l.digest}
		for _, f := range l.files {
			l.state.Totals.Size += f.size
		}
		return nil
	}
	if err := l.same(l.state); err != nil {
		return err
	}
	return l.make(ctx, nil)
}

// step looks at the partitions once: it counts those that ended, cuts new windows, writes both down,
// and only then removes and makes partitions.
func (l *leader) step(ctx context.Context) (changed bool, err error) {
	all, err := l.parts.List(ctx)
	if err != nil {
		return changed, err
	}
	changed = l.book.record.CreatedAt == 0
	open := 0
	for _, x := range all {
		did, err := l.state.count(x)
		if err != nil {
			return changed, err
		}
		changed = changed || did
		if n, ok := number(x.ID); ok && !l.state.counted(n) {
			open++
		}
	}
	ahead, err := l.ahead(ctx)
	if err != nil {
		return changed, err
	}
	if n := ahead - open; n > 0 && l.state.cut(l.files, l.Window, n) {
		changed = true
	}
	if changed {
		if err := l.book.save(ctx, l.state); err != nil {
			return changed, err
		}
	}
	for _, x := range all {
		if n, ok := number(x.ID); ok && l.state.counted(n) {
			if err := l.parts.Remove(ctx, x); err != nil {
				return changed, err
			}
		}
	}
	return changed, l.make(ctx, all)
}

// make adds the partitions of all windows that are not counted, except for those in the listing, also
// again: the store may have lost an acknowledged one. Those that are there stay as they are.
func (l *leader) make(ctx context.Context, listed []primitive.Status) error {
	there := map[string]bool{}
	for _, x := range listed {
		there[x.ID] = true
	}
	ids := make([]string, 0, len(l.state.Pending))
	for id := range l.state.Pending {
		if !there[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		task, err := l.state.Pending[id].encode()
		if err != nil {
			return err
		}
		if err := l.parts.Add(ctx, id, task); err != nil {
			return err
		}
	}
	return nil
}

// ahead is how many windows may be open, by the workers of all nodes that are alive.
func (l *leader) ahead(ctx context.Context) (int, error) {
	if now := l.Clock.Read().Boot; l.swept == 0 || now-l.swept > nodeBeat {
		if err := l.nodes.Expire(ctx, nodeAge); err != nil {
			return 0, err
		}
		l.swept = now
	}
	nodes, err := l.nodes.List(ctx)
	if err != nil {
		return 0, err
	}
	workers := 0
	for _, n := range nodes {
		workers += max(n.Workers, 0)
	}
	return min(max(perWorker*workers, leastAhead), mostAhead), nil
}
