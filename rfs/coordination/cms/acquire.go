package cms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/overtime"
)

// Hints orders candidates in place, most wanted first; nil keeps their random
// order. A hint can neither add nor remove work.
type Hints func([]Item)

const (
	candidates = 32 // tried by one acquisition
	// hinted is the number of candidates that are passed to Hints; the first of its order are tried.
	hinted        = 1024
	acquireRounds = 8 // searches whose candidates all went to others, before NoneAvailable
)

// AcquireNext leases an item for the slot. holder must be unique to the slot over all processes, such as host_uuid_slot; each acquisition
// appends a number. A half-done hand-off of a candidate is finished on the way.
//
// A *NoneAvailable reports until when other workers hold the open items, ErrAllDone that no item is open, ErrClockSkew that the clocks
// differ too much, and ErrForeign that another tool has worked on the queue.
func (c *Coordinator) AcquireNext(ctx context.Context, holder string, hints Hints) (lease *Lease, err error) {
	err = c.untilLeased(ctx, func(ctx context.Context) (bool, error) {
		var err error
		lease, err = c.fromCandidates(ctx, holder, hints)
		return lease != nil, err
	})
	return lease, err
}

// AcquireItem leases one item for the slot, as AcquireNext does. A *NoneAvailable means that another holder has it, ErrAllDone
// that it is not open.
func (c *Coordinator) AcquireItem(ctx context.Context, id ItemID, holder string) (*Lease, error) {
	c.repay(ctx)
	l, it, v, err := c.acquire(ctx, id.String(), holder, c.cfg.InitialLease, c.cfg.MaxAttempts)
	switch {
	case err != nil:
		return nil, err
	case v == Done:
		return nil, ErrAllDone
	case l == nil:
		return nil, &NoneAvailable{Holder: it.Holder, NextExpiry: time.Unix(it.Expiration, 0).Add(c.grace), Open: 1}
	}
	return l, nil
}

// untilLeased calls acquire until it leases something or fails, or nothing is free.
func (c *Coordinator) untilLeased(ctx context.Context, acquire func(context.Context) (leased bool, err error)) error {
	rounds := acquireRounds
	if c.cfg.Tries > 0 {
		rounds = 1
	}
	c.repay(ctx)
	for range rounds {
		if leased, err := acquire(ctx); leased || err != nil {
			return err
		}
		// Open sees every acknowledged write, and lets the next search see it too.
		open, err := c.open(ctx)
		if err != nil {
			return err
		}
		c.ended.clear()
		if open.Items == 0 {
			return c.whenNothingOpen(ctx)
		}
		now, _, err := c.leases.Now(ctx)
		if err != nil {
			return err
		}
		if next := time.Unix(open.NextExpiry, 0).Add(c.grace); next.After(now) {
			return &NoneAvailable{Holder: open.Holder, NextExpiry: next, Open: open.Items}
		}
		if err := c.clock.Sleep(ctx, c.retries.rand.between(0, 50*time.Millisecond)); err != nil {
			return err
		}
	}
	now, _, err := c.leases.Now(ctx)
	if err != nil {
		return err
	}
	return &NoneAvailable{Holder: "others", NextExpiry: now, Open: 1}
}

// whenNothingOpen distinguishes a finished queue from a queue that is being seeded.
func (c *Coordinator) whenNothingOpen(ctx context.Context) error {
	if c.seeded.Load() {
		return ErrAllDone
	}
	it, err := c.get(ctx, c.setup())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read %s: %w", c.setup(), err)
	}
	if err == nil && !it.Open() {
		c.seeded.Store(true)
		return ErrAllDone
	}
	return &NoneAvailable{Holder: it.Holder, NextExpiry: time.Unix(it.Expiration, 0).Add(c.grace), Open: 1, Unseeded: true}
}

func (c *Coordinator) fromCandidates(ctx context.Context, holder string, hints Hints) (*Lease, error) {
	found, err := c.search(ctx, hints, candidates)
	if err != nil {
		return nil, err
	}
	for _, it := range found {
		if l, err := c.try(ctx, it, holder); l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

// search returns up to n candidates in the order in which to try them, without items that this process has just completed.
func (c *Coordinator) search(ctx context.Context, hints Hints, n int) ([]Item, error) {
	var found []Item
	looked := n
	if hints != nil {
		looked = hinted
	}
	err := c.retries.do(ctx, readBudget, func(ctx context.Context) (err error) {
		found, err = c.store.Candidates(ctx, c.grace, looked)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search work: %w", err)
	}
	found = c.ended.without(found, c.clock.Read().Mono)
	c.retries.rand.shuffle(found)
	if c.cfg.MaxAttempts > 0 { // items to work on alone come last
		slices.SortStableFunc(found, func(a, b Item) int {
			return cmp.Compare(min(a.Attempts/c.cfg.MaxAttempts, 1), min(b.Attempts/c.cfg.MaxAttempts, 1))
		})
	}
	if hints != nil {
		hints(found)
		found = found[:min(len(found), n)]
	}
	if c.cfg.Tries > 0 {
		found = found[:min(len(found), c.cfg.Tries)]
	}
	return found, nil
}

// try leases a candidate. The lease is nil when another worker was quicker.
func (c *Coordinator) try(ctx context.Context, it Item, holder string) (*Lease, error) {
	if err := it.foreign(); err != nil {
		return nil, err
	}
	if _, err := it.Range(); err != nil { // not an item of this protocol; no worker may lease it
		_, err := c.Event(ctx, it.ID, "foreign_document", "in the index of work items")
		return nil, err
	}
	l, got, v, err := c.acquire(ctx, it.ID, holder, c.cfg.InitialLease, c.cfg.MaxAttempts)
	if err != nil || v != Applied && v != Already {
		return nil, err
	}
	l.held = it.AcquiredAt != 0
	return c.usable(ctx, l, got)
}

// usable returns the lease. If its item was handed off already, it finishes the hand-off and returns nil.
func (c *Coordinator) usable(ctx context.Context, l *Lease, got Item) (*Lease, error) {
	if got.Successors == "" {
		return l, nil
	}
	if err := l.finish(ctx, got); err != nil && !errors.Is(err, fault.ErrLeaseLost) {
		return nil, err
	}
	return nil, nil
}

// acquire tries to lease one item. The lease is nil unless the result is Applied or Already. If the answer is lost, the item is read back.
func (c *Coordinator) acquire(ctx context.Context, id, holder string, initial time.Duration, attempts int) (*Lease, Item, Result, error) {
	asked := c.acquisition(holder, c.clock.Read(), initial, attempts)
	mine := asked.Holder
	for try := 0; ; try++ {
		before, readBack := c.clock.Read(), false
		asked.ClientMs = before.Wall.UnixMilli()
		asking, answered := overtime.Context(ctx, acquireTimeout)
		it, v, err := c.store.Apply(asking, id, asked)
		answered()
		c.store95.Add(c.clock.Read().Mono - before.Mono)
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
			return nil, it, Held, nil // another worker was first
		case err != nil && (errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil):
			if ctx.Err() == nil {
				it, err = c.get(ctx, id)
			}
			if err != nil || it.Holder != mine { // the request may still arrive
				c.owe(id, Release{Holder: mine, Cause: string(CauseOutage)})
			}
			if err != nil {
				return nil, it, 0, fmt.Errorf("acquire %s: outcome unknown: %w", ItemName(id), err)
			}
			if it.Holder != mine || !it.Open() {
				return nil, it, Held, nil
			}
			v, readBack = Already, true
		case err != nil:
			return nil, it, 0, fmt.Errorf("acquire %s: %w", ItemName(id), err)
		}
		switch v {
		case Foreign:
			return nil, it, v, fmt.Errorf("%s: %w", ItemName(id), ErrSchemaMismatch)
		case Skewed:
			if err := c.skew(ctx); err != nil {
				return nil, it, v, err
			}
			if try < 2 {
				continue // the request itself was slow
			}
			return nil, it, Held, nil
		case Applied, Already:
			l, err := c.keep(ctx, c.newLease(it, before, initial), readBack)
			if l == nil {
				v = Held
			}
			return l, it, v, err
		default:
			return nil, it, v, nil
		}
	}
}

// keep returns the lease if it leaves time for work, and releases it otherwise. If the answer came too late to start anything, the next
// lease is longer. A lease that was read back is kept while half of it is left.
func (c *Coordinator) keep(ctx context.Context, l *Lease, readBack bool) (*Lease, error) {
	if l.UntilTrigger() <= 0 || readBack && l.UntilEnd() < l.Length/2 {
		return nil, errors.Join(l.ReleaseWith(ctx, EarlyRelease{Cause: CauseOutage, Longer: !readBack}), ctx.Err())
	}
	return l, nil
}

// acquireTimeout is the time that an acquisition in flight gets after its caller was cancelled: a granted lease that this process does not
// know would keep the item from others.
const acquireTimeout = 3 * time.Second

// skew measures the difference of the clocks and returns an ErrClockSkew when it exceeds the tolerance.
func (c *Coordinator) skew(ctx context.Context) error {
	now, maxErr, err := c.leases.Now(ctx)
	if err != nil {
		return err
	}
	d := c.clock.Read().Wall.Sub(now)
	if d.Abs() <= c.cfg.SkewTolerance+maxErr {
		return nil
	}
	err = fmt.Errorf("this machine's clock is %s off the coordination store's (tolerance %s); set the clocks: %w",
		d.Round(time.Millisecond), c.cfg.SkewTolerance, ErrClockSkew)
	_, everr := c.Event(ctx, c.cfg.Creator, "clock_skew", err.Error())
	return errors.Join(err, everr)
}
