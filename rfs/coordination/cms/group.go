package cms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/overtime"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

const (
	// groupCandidates limits the items of one search that are kept for groups; candidatesTTL is the time they are kept.
	groupCandidates = 128
	candidatesTTL   = 5 * time.Second
	// linger is the time for which a completion waits for others of its group.
	linger = time.Second
)

// GroupLimits defines which items may be leased together, and how many.
type GroupLimits struct {
	Items int                 // maximum number of leases in a group; up to 1: items are leased singly
	Bytes int64               // maximum of all items in a group
	Size  func(it Item) int64 // bytes that an item covers; 0: unknown, so that it is leased singly
	More  func() bool         // whether the request with completions may acquire the next group
}

// Group leases items for one slot of a process: one, or several small ones, each under a holder id of its own. One request sends their
// completions and acquires the next group. What it leaves open is settled by requests of single leases, so a Group only saves requests.
// Acquire and Close are called by one goroutine, Left and the methods of leases by any.
type Group struct {
	c      *Coordinator
	holder string
	small  GroupLimits

	mu      sync.Mutex
	known   []Item        // candidates of the last search that were not tried yet
	foundAt time.Duration // monotonic clock
	coming  []string      // ids that Upcoming returned last
	working int           // leases that the slot still works on
	waiting []*completion
	next    []*Lease // acquired together with completions
}

// completion is a lease whose work is done.
type completion struct {
	change  Change
	wake    context.CancelFunc
	settled chan struct{} // closed when outcome is set
	outcome Outcome
}

// Group returns a Group for a slot. holder must be unique to the slot over all processes.
func (c *Coordinator) Group(holder string, small GroupLimits) *Group {
	return &Group{c: c, holder: holder, small: small}
}

// Acquire leases the next items, at least one. All leases that it returned before must have ended. Errors are those that AcquireNext
// returns.
func (g *Group) Acquire(ctx context.Context, hints Hints) ([]*Lease, error) {
	g.mu.Lock()
	leases := g.next
	g.next = nil
	g.mu.Unlock()
	var err error
	if len(leases) == 0 {
		err = g.c.untilLeased(ctx, func(ctx context.Context) (bool, error) {
			var err error
			leases, err = g.acquire(ctx, hints)
			return len(leases) > 0, err
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working, g.waiting = len(leases), nil
	for _, l := range leases {
		l.group, l.others = g, len(leases)-1
	}
	return leases, err
}

// acquire tries the remaining items of the last search, in the current order of hints, then the items of a new one.
func (g *Group) acquire(ctx context.Context, hints Hints) ([]*Lease, error) {
	if hints != nil {
		g.mu.Lock()
		hints(g.known)
		g.mu.Unlock()
	}
	if leases, err := g.tryKnown(ctx); len(leases) > 0 || err != nil {
		return leases, err
	}
	found, err := g.search(ctx, hints)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.known, g.foundAt = found, g.c.clock.Read().Mono
	g.mu.Unlock()
	return g.tryKnown(ctx)
}

// search returns candidates for groups.
func (g *Group) search(ctx context.Context, hints Hints) ([]Item, error) {
	n := groupCandidates
	if g.small.Items <= 1 {
		n = candidates
	}
	return g.c.search(ctx, hints, n)
}

// tryKnown tries the known candidates until some are leased. It returns nil when none are left.
func (g *Group) tryKnown(ctx context.Context) ([]*Lease, error) {
	for {
		batch := g.pick(false)
		switch len(batch) {
		case 0:
			return nil, nil
		case 1:
			l, err := g.c.try(ctx, batch[0], g.holder)
			if err != nil {
				return nil, err
			}
			if l != nil {
				return []*Lease{l}, nil
			}
		default:
			_, leases, err := g.c.applyGroup(ctx, nil, batch, g.holder)
			if len(leases) > 0 || err != nil {
				return leases, err
			}
		}
	}
}

// pick removes and returns the first known candidate and, if it is small, other small ones with it. With smallOnly it returns nil when the
// first is not small.
func (g *Group) pick(smallOnly bool) []Item {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOld() {
		g.keepComing()
	}
	if len(g.known) == 0 {
		return nil
	}
	first := g.known[0]
	bytes := g.groupable(first)
	if bytes == 0 {
		if smallOnly {
			return nil
		}
		g.known = g.known[1:]
		return []Item{first}
	}
	batch := []Item{first}
	rest := g.known[:0]
	for _, it := range g.known[1:] {
		size := g.groupable(it)
		if size == 0 || len(batch) == g.small.Items || bytes+size > g.small.Bytes {
			rest = append(rest, it)
			continue
		}
		batch, bytes = append(batch, it), bytes+size
	}
	g.known = rest
	return batch
}

// Upcoming returns up to n items that the slot tries to lease next, in that order, and keeps to it unless the hints change. They are not
// leased, so others may be quicker. When the last search is too old or used up, Upcoming searches ahead for the next Acquire. It leaves out
// items that were handed off, and items whose last holder made no progress. It is called by one goroutine, and not concurrently with
// Acquire.
func (g *Group) Upcoming(ctx context.Context, hints Hints, n int) []Item {
	g.mu.Lock()
	searches := len(g.known) == 0 || g.isOld()
	g.mu.Unlock()
	var found []Item
	if searches {
		found, _ = g.search(ctx, hints) // the next Acquire reports the error
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(found) > 0 {
		g.keepComing()
		found = slices.DeleteFunc(found, func(it Item) bool { return slices.Contains(g.coming, it.ID) })
		g.known, g.foundAt = append(g.known, found...), g.c.clock.Read().Mono
	}
	g.coming = g.coming[:0]
	var next []Item
	for _, it := range g.known {
		if len(next) < n && !it.touched() {
			next, g.coming = append(next, it), append(g.coming, it.ID)
		}
	}
	return next
}

// isOld reports whether the last search is older than candidatesTTL. g.mu is held.
func (g *Group) isOld() bool { return g.c.clock.Read().Mono-g.foundAt > candidatesTTL }

// keepComing drops the candidates that Upcoming did not return last. g.mu is held.
func (g *Group) keepComing() {
	g.known = slices.DeleteFunc(g.known, func(it Item) bool { return !slices.Contains(g.coming, it.ID) })
}

// touched reports whether an item was handed off, starts at another engine's cursor, or was leased without progress since.
func (it Item) touched() bool { return it.Attempts > 0 || it.Successors != "" || it.foreignCursor() }

// groupable returns the bytes of an item that may be leased together with others, and 0 for any other. An item whose last holder made no
// progress is leased singly, so that it can harm no other items.
func (g *Group) groupable(it Item) int64 {
	if g.small.Items <= 1 || it.touched() {
		return 0
	}
	if _, err := it.Range(); err != nil {
		return 0
	}
	if size := g.small.Size(it); size <= g.small.Bytes {
		return size
	}
	return 0
}

// Left records that the work under one of the group's leases has ended, with any outcome.
func (g *Group) Left(ctx context.Context) {
	g.mu.Lock()
	g.working--
	last := len(g.waiting) > 0 && len(g.waiting) == g.working
	g.mu.Unlock()
	if last {
		g.send(ctx)
	}
}

// complete sends the completion of a lease together with the other completions and returns its outcome; ok is false when that did not
// settle it.
func (g *Group) complete(ctx context.Context, l *Lease, t Complete) (o Outcome, ok bool) {
	asleep, wake := context.WithCancel(ctx)
	defer wake()
	w := &completion{change: Change{l.Item.ID, t}, wake: wake, settled: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	last := len(g.waiting) == g.working
	g.mu.Unlock()
	if !last {
		_ = g.c.clock.Sleep(asleep, linger) // until another completion sends it, or linger is over
	}
	g.mu.Lock()
	at := slices.Index(g.waiting, w)
	if at >= 0 && ctx.Err() != nil {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	g.mu.Unlock()
	if at >= 0 && ctx.Err() == nil {
		g.send(ctx)
	}
	select {
	case <-w.settled:
	case <-ctx.Done():
		return Outcome{}, false
	}
	return w.outcome, w.outcome.Err == nil
}

// send sends the waiting completions. If the whole group is done, the same request acquires the next one.
func (g *Group) send(ctx context.Context) {
	g.mu.Lock()
	done := g.waiting
	g.waiting = nil
	whole := len(done) == g.working && len(g.next) == 0
	g.mu.Unlock()
	if len(done) == 0 {
		return
	}
	var want []Item
	changes := make([]Change, 0, len(done))
	for _, w := range done {
		changes = append(changes, w.change)
	}
	if whole && g.small.More() {
		want = g.pick(true)
	}
	outcomes, leases, err := g.c.applyGroup(ctx, changes, want, g.holder)
	g.mu.Lock()
	g.next = append(g.next, leases...)
	g.mu.Unlock()
	for i, w := range done {
		if outcomes != nil {
			w.outcome = outcomes[i]
		} else {
			w.outcome = Outcome{Err: err}
		}
		close(w.settled)
		w.wake()
	}
}

// Close releases the leases acquired for the next group, without counting attempts.
func (g *Group) Close(ctx context.Context) error {
	g.mu.Lock()
	next := g.next
	g.next = nil
	g.mu.Unlock()
	var errs []error
	for _, l := range next {
		errs = append(errs, l.Release(ctx, CauseDrain))
	}
	return errors.Join(errs...)
}

// applyGroup sends completions and acquisitions in one request. It returns the outcomes of the completions, nil if there was no answer, and
// the granted leases that leave time for work.
func (c *Coordinator) applyGroup(ctx context.Context, done []Change, want []Item, holder string) ([]Outcome, []*Lease, error) {
	changes := slices.Clone(done)
	before := c.clock.Read()
	asked := make([]Acquire, len(want))
	for i, it := range want {
		asked[i] = c.acquisition(holder, before, c.cfg.InitialLease, c.cfg.MaxAttempts)
		changes = append(changes, Change{it.ID, asked[i]})
	}
	asking, answered := overtime.Context(ctx, acquireTimeout)
	outcomes, err := c.store.ApplyAll(asking, changes)
	answered()
	c.store95.Add(c.clock.Read().Mono - before.Mono)
	var leases []*Lease
	var errs []error
	for i, it := range want {
		o := Outcome{Err: err}
		if err == nil {
			o = outcomes[len(done)+i]
		}
		l, err := c.acquired(ctx, it, asked[i], o, before)
		if l != nil {
			leases = append(leases, l)
		}
		errs = append(errs, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("acquire and complete %d work items: %w", len(changes), err)
	}
	if len(leases) > 0 { // errors of the others will occur again
		return outcomes[:len(done)], leases, nil
	}
	return outcomes[:len(done)], nil, errors.Join(errs...)
}

// acquired evaluates the outcome of one acquisition in a group. it is the item as the search found it. The lease is nil unless it was
// granted and leaves time for work.
func (c *Coordinator) acquired(ctx context.Context, it Item, asked Acquire, o Outcome, before timing.Reading) (*Lease, error) {
	switch {
	case errors.Is(o.Err, ErrConflict), errors.Is(o.Err, ErrNotFound):
		return nil, nil // another worker was quicker
	case o.Err != nil:
		if errors.Is(o.Err, fault.ErrUnavailable) || ctx.Err() != nil { // it may have been granted
			c.owe(it.ID, Release{Holder: asked.Holder, Cause: string(CauseOutage)})
		}
		return nil, fmt.Errorf("acquire %s: %w", ItemName(it.ID), o.Err)
	case o.Result == Foreign:
		return nil, fmt.Errorf("%s: %w", ItemName(it.ID), ErrSchemaMismatch)
	case o.Result == Skewed:
		return nil, c.skew(ctx)
	case o.Result != Applied && o.Result != Already:
		return nil, nil
	}
	l, err := c.keep(ctx, c.newLease(o.Item, before, c.cfg.InitialLease), false)
	if l == nil || err != nil {
		return nil, err
	}
	l.held = it.AcquiredAt != 0
	return c.usable(ctx, l, o.Item)
}

// acquisition returns the transition that leases an item under a fresh holder id.
func (c *Coordinator) acquisition(holder string, before timing.Reading, initial time.Duration, attempts int) Acquire {
	return Acquire{
		Holder: c.freshHolder(holder), InitialMs: initial.Milliseconds(), MaxMs: max(initial, c.cfg.MaxLease).Milliseconds(),
		GraceMs: c.grace.Milliseconds(), MaxAttempts: attempts,
		ClientMs: before.Wall.UnixMilli(), ToleranceMs: c.cfg.SkewTolerance.Milliseconds(),
	}
}
