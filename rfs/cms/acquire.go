package cms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Hints orders candidates in place, most wanted first; nil keeps their random
// order. A hint can neither add nor remove work.
type Hints func([]Item)

const (
	candidates = 32
	// hinted is how many candidates are looked at when a hint orders them; the first are tried.
	hinted        = 1024
	acquireRounds = 8 // of candidates that all went to others, before NoneAvailable
)

// AcquireNext leases an item for the slot. holder must be unique to the slot over
// all processes, such as host_uuid_slot; a number is added per acquisition.
// Half-done hand-offs that it meets are finished on the way.
//
// A *NoneAvailable says that others work and until when; ErrAllDone that no item
// is open; ErrClockSkew that the clocks differ too much. When only items are
// free that another engine began in mid-shard, they are taken over; a *ForeignWorker when
// one of its workers is active.
func (c *Coordinator) AcquireNext(ctx context.Context, holder string, hints Hints) (*Lease, error) {
	rounds := acquireRounds
	if c.cfg.Tries > 0 {
		rounds = 1
	}
	c.repay(ctx)
	for range rounds {
		l, err := c.fromCandidates(ctx, holder, hints)
		if l != nil || err != nil {
			return l, err
		}
		// Open sees every acknowledged write, and lets the next search see it too.
		open, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		if open.Items == 0 {
			return nil, c.whenNothingOpen(ctx)
		}
		now, _, err := c.now(ctx)
		if err != nil {
			return nil, err
		}
		if next := time.Unix(open.NextExpiry, 0).Add(c.grace); next.After(now) {
			return nil, &NoneAvailable{Holder: open.Holder, NextExpiry: next, Open: open.Items}
		}
		if err := c.clock.Sleep(ctx, c.retries.rand.between(0, 50*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	now, _, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	return nil, &NoneAvailable{Holder: "others", NextExpiry: now, Open: 1}
}

// whenNothingOpen tells a finished queue from one that is being seeded.
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
	return &NoneAvailable{Holder: it.Holder, NextExpiry: time.Unix(it.Expiration, 0).Add(c.grace), Open: 1}
}

func (c *Coordinator) now(ctx context.Context) (now time.Time, maxErr time.Duration, err error) {
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		now, maxErr, err = c.store.Now(ctx)
		return err
	})
	if err != nil {
		return now, maxErr, fmt.Errorf("clock of the coordination store: %w", err)
	}
	return now, maxErr, nil
}

func (c *Coordinator) fromCandidates(ctx context.Context, holder string, hints Hints) (*Lease, error) {
	var found []Item
	n := candidates
	if hints != nil {
		n = hinted
	}
	err := c.retries.do(ctx, readBudget, func(ctx context.Context) (err error) {
		found, err = c.store.Candidates(ctx, c.grace, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search work: %w", err)
	}
	c.retries.rand.shuffle(found)
	if c.cfg.MaxAttempts > 0 { // those to work on alone come last
		slices.SortStableFunc(found, func(a, b Item) int {
			return cmp.Compare(min(a.Attempts/c.cfg.MaxAttempts, 1), min(b.Attempts/c.cfg.MaxAttempts, 1))
		})
	}
	if hints != nil {
		hints(found)
		found = found[:min(len(found), candidates)]
	}
	if c.cfg.Tries > 0 {
		found = found[:min(len(found), c.cfg.Tries)]
	}
	foreign := false
	for _, it := range found {
		if it.foreignCursor() || it.foreignSuccessors() {
			foreign = true
			continue
		}
		if _, err := it.Range(); err != nil { // no item of this protocol; nobody may lease it
			if _, err := c.Event(ctx, it.ID, "foreign_document", "in the index of work items"); err != nil {
				return nil, err
			}
			continue
		}
		l, got, v, err := c.acquire(ctx, it.ID, holder, c.cfg.InitialLease, c.cfg.MaxAttempts)
		if err != nil {
			return nil, err
		}
		switch v {
		case Applied, Already:
			if got.Successors == "" {
				return l, nil
			}
			err := l.finish(ctx, got)
			if errors.Is(err, errForeignHandoff) { // the search was stale
				foreign = true
			} else if err != nil && !errors.Is(err, fault.ErrLeaseLost) {
				return nil, err
			}
		}
	}
	if foreign { // nothing else was free
		return nil, c.TakeOver(ctx, false)
	}
	return nil, nil
}

// acquire tries to lease one item. The lease is nil unless the verdict is Applied
// or Already. An answer that was lost is read back, never assumed.
func (c *Coordinator) acquire(ctx context.Context, id, holder string, initial time.Duration, attempts int) (*Lease, Item, Verdict, error) {
	mine := holder + "_" + strconv.FormatInt(c.seq.Add(1), 10)
	for try := 0; ; try++ {
		before, readBack := c.clock.Read(), false
		asking, answered := outlive(ctx, answerTime)
		it, v, err := c.store.Apply(asking, id, Acquire{
			Holder: mine, InitialMs: initial.Milliseconds(), MaxMs: max(initial, c.cfg.MaxLease).Milliseconds(),
			GraceMs: c.grace.Milliseconds(), MaxAttempts: attempts,
			ClientMs: before.Wall.UnixMilli(), ToleranceMs: c.cfg.SkewTolerance.Milliseconds(),
		})
		answered()
		c.store95.add(c.clock.Read().Mono - before.Mono)
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
			return nil, it, Held, nil // somebody else was quicker
		case err != nil && (errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil):
			if ctx.Err() == nil {
				it, err = c.get(ctx, id)
			}
			if err != nil || it.Holder != mine { // also a request that has yet to arrive
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
			l := c.newLease(it, before, initial)
			// An answer may come too late to start anything: the next lease is longer. A lease
			// that had to be read back is worth keeping while half of it is left.
			if l.UntilTrigger() <= 0 || readBack && l.UntilEnd() < l.Length/2 {
				return nil, it, Held, errors.Join(l.GiveBack(ctx, Return{Cause: CauseOutage, Longer: !readBack}), ctx.Err())
			}
			return l, it, v, nil
		default:
			return nil, it, v, nil
		}
	}
}

// answerTime is how long an acquisition under way is waited for when its caller is told to
// stop: a lease that was granted and is not known of would keep the item from others.
const answerTime = 3 * time.Second

// outlive gives a context that ends some time after ctx does. done frees it.
func outlive(ctx context.Context, more time.Duration) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(more, cancel) })
	return longer, func() { stop(); cancel() }
}

// skew measures the distance of the clocks and gives an ErrClockSkew when it is
// really beyond the tolerance.
func (c *Coordinator) skew(ctx context.Context) error {
	now, maxErr, err := c.now(ctx)
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
