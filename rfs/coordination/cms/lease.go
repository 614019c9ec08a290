package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Cause is the reason why an item is released before its end.
type Cause string

// Causes. Only CauseNone counts as an acquisition without progress.
const (
	CauseNone         Cause = "" // the work itself: an error, no progress
	CauseBackpressure Cause = "backpressure"
	CauseDrain        Cause = "drain"
	CausePause        Cause = "pause"
	CauseOutage       Cause = "outage"
	CauseKilled       Cause = "killed" // by the parent or an operator
)

func (c Cause) counted() bool { return c == CauseNone }

// Work holds the results of one acquisition, from Lease.Start on.
type Work struct {
	Counts Counts
	Checks json.RawMessage // opaque; may be nil
	Setup  time.Duration   // from acquisition to the first document read; 0 when unknown
}

// Lease is the right to work on an item until a deadline. Its methods may be called
// by several goroutines; at most one of Handoff, Complete, Release and Fail.
type Lease struct {
	Item   Item   // as it was acquired
	ID     ItemID // zero for a setup
	Holder string
	Length time.Duration // granted, by the store

	Guard
	c       *Coordinator
	group   *Group // nil: the lease completes by itself
	others  int    // other leases of the group
	begin   int64
	held    bool           // the search found the item leased before
	trigger timing.Instant // trigger for a fast store
	half    timing.Instant

	ending sync.Mutex
	ended  *Item

	moving  sync.Mutex
	reached int64         // the highest ordinal recorded
	movedAt time.Duration // when it was recorded, by the monotonic clock; 0: never
}

func (c *Coordinator) newLease(it Item, before timing.Reading, initial time.Duration) *Lease {
	length := timing.LeaseLength(initial, int(it.LeaseExponent), max(initial, c.cfg.MaxLease))
	margin := timing.Margin(length)
	l := &Lease{
		Item: it, Holder: it.Holder, Length: length, c: c, begin: it.Begin(),
		trigger: before.After(min(timing.TriggerAfter(length), length-margin)),
		half:    before.After(length / 2),
		reached: it.Begin(),
	}
	l.clock, l.confirm = c.clock, l.Validate
	l.granted(before, length, margin)
	if id, err := it.Range(); err == nil {
		l.ID = id
	}
	l.name = l.ID.Name()
	return l
}

// Start returns the first ordinal to work on: the item's cursor, or the watermark that an earlier holder recorded.
func (l *Lease) Start() int64 { return l.begin }

// Follows reports whether an earlier lease, of this item or of its predecessor, may have sent documents from Start on. The search result
// before the acquisition is not enough: another lease may have started and ended since.
func (l *Lease) Follows() bool {
	successor := l.ID.Cursor > 0 && l.Item.IndexName == "" // the first item of a chain has the name
	return l.held || successor || l.Item.Attempts > 1 || l.begin > l.ID.Cursor || l.Item.ReleasedFor != ""
}

// Grouped reports whether the slot works on other small items at the same time.
func (l *Lease) Grouped() bool { return l.others > 0 }

// UntilTrigger returns the time until the hand-off has to start. It is shorter the slower the store answers, but the trigger is never
// before half of the lease.
func (l *Lease) UntilTrigger() time.Duration {
	now := l.c.clock.Read()
	return min(l.trigger.Left(now), max(l.half.Left(now), l.safe.Left(now)-l.reserve()))
}

// handoffRequests is the number of successive requests of a hand-off: two verify that the target is unchanged, three store the successor's
// id, create it and complete the item.
const handoffRequests = 5

// HandoffTime returns the expected time of a hand-off, from the latency of the store's latest requests.
func (l *Lease) HandoffTime() time.Duration { return handoffRequests * l.c.store95.P95() }

// reserve returns the time to keep before the deadline: for the hand-off, and for requests in flight to end.
func (l *Lease) reserve() time.Duration { return l.HandoffTime() + l.Length/10 }

// Short reports whether a hand-off would have to start before half of the lease to end in time.
func (l *Lease) Short() bool {
	return l.Length-timing.Margin(l.Length)-l.reserve() < l.Length/2
}

// Validate asks the store whether the item is still this lease's, also if this lease completed it. It is called after a pause of the
// process.
func (l *Lease) Validate(ctx context.Context) error {
	if err := l.Check(); err != nil {
		return err
	}
	it, err := l.c.get(ctx, l.Item.ID)
	if err != nil {
		return l.failed("validate lease of", err)
	}
	if it.Holder != l.Holder {
		return l.lose(fmt.Errorf("%s belongs to %q now: %w", l.ID.Name(), it.Holder, fault.ErrLeaseLost))
	}
	return nil
}

// Progress records that every ordinal below watermark is durably done, with the results from Start to there. It is not retried: a failure
// only costs rework. After this lease ended the item or stored its successors, Progress changes nothing and returns nil.
func (l *Lease) Progress(ctx context.Context, watermark int64, w Work) error {
	checks, err := l.checks(w)
	if err != nil {
		return err
	}
	return l.progress(ctx, onceBudget, Progress{
		Watermark: watermark, Counts: l.Item.Counts.Add(w.Counts), Checks: checks, SetupMs: w.Setup.Milliseconds(),
	})
}

// Reach records that every ordinal below was handled, though nothing is durable before the end. The next holder starts where this one did,
// but Attempts is reset.
func (l *Lease) Reach(ctx context.Context, ordinal int64) error {
	return l.progress(ctx, onceBudget, Progress{Reached: ordinal})
}

// RecordPosition is Progress and Reach in one request, under a lease to work on alone. It is retried; work may continue only when it
// returns nil.
func (l *Lease) RecordPosition(ctx context.Context, watermark, reached int64, w Work) error {
	checks, err := l.checks(w)
	if err != nil {
		return err
	}
	return l.progress(ctx, l.c.retries.before(l.safe, readBudget), Progress{
		Watermark: watermark, Counts: l.Item.Counts.Add(w.Counts), Checks: checks, SetupMs: w.Setup.Milliseconds(), Reached: reached, Alone: true,
	})
}

func (l *Lease) progress(ctx context.Context, b retry.Policy, p Progress) error {
	p.Holder, p.Begin = l.Holder, l.begin
	_, v, err := l.c.apply(ctx, b, l.Item.ID, p)
	if err != nil {
		return l.failed("record progress of", err)
	}
	if v == Applied {
		l.move(max(p.Watermark, p.Reached))
	}
	return l.expect(v, Applied, Already, Done, Mismatch) // Done and Mismatch can only be this holder's own doing
}

func (l *Lease) move(ordinal int64) {
	l.moving.Lock()
	defer l.moving.Unlock()
	if ordinal > l.reached {
		l.reached, l.movedAt = ordinal, l.clock.Read().Mono
	}
}

// MovedAt returns when a higher ordinal was last recorded, by the monotonic clock: the store and the destination answered then. moved is
// false when none was.
func (l *Lease) MovedAt() (at time.Duration, moved bool) {
	l.moving.Lock()
	defer l.moving.Unlock()
	return l.movedAt, l.movedAt > 0
}

// Handoff ends the lease at watermark in four steps, each repeatable by any worker: name the successor, store its id on the item, create
// it, complete the item. It returns ErrNoProgress when watermark is not beyond Start.
func (l *Lease) Handoff(ctx context.Context, watermark int64, w Work) error {
	if watermark <= l.begin || watermark <= l.ID.Cursor {
		return fmt.Errorf("%s at %d: %w", l.ID.Name(), watermark, ErrNoProgress)
	}
	checks, err := l.checks(w)
	if err != nil {
		return err
	}
	next := ItemID{Kind: l.ID.Kind, Index: l.ID.Index, Shard: l.ID.Shard, Cursor: watermark}.String()
	exponent := max(timing.RightSize(l.Length, l.c.cfg.InitialLease, w.Setup), min(l.c.cfg.MinExponent, timing.MaxExponent))
	if l.Short() {
		exponent = max(exponent, min(int(l.Item.LeaseExponent)+1, timing.MaxExponent))
	}
	it, v, err := l.c.apply(ctx, l.c.retries.before(l.end, successorBudget), l.Item.ID, SetSuccessors{
		Holder: l.Holder, Successors: next, HandExponent: exponent,
		Watermark: watermark, Counts: l.Item.Counts.Add(w.Counts), Checks: checks, SetupMs: w.Setup.Milliseconds(),
	})
	if err != nil {
		return l.failed("store successor of", err)
	}
	if v == Mismatch && it.Holder == l.Holder && it.Successors != "" {
		return l.finish(ctx, it) // the stored watermark applies, not the argument
	}
	if err := l.expect(v, Applied, Already); err != nil {
		return err
	}
	return l.finish(ctx, it)
}

// finish does the remaining steps of a hand-off whose successors are stored. A hand-off of another engine is left unchanged: the item is
// released and an ErrForeign returned.
func (l *Lease) finish(ctx context.Context, it Item) error {
	if err := it.foreign(); err != nil {
		return errors.Join(err, l.Release(ctx, CauseDrain))
	}
	ids := it.SuccessorIDs()
	items := make([]Item, 0, len(ids))
	for _, id := range ids {
		items = append(items, newOf(id, Root{ID: ItemID{Kind: it.Kind}, Task: it.Task, End: it.End}, l.c.cfg.Creator, int(it.HandExponent)))
	}
	created := 0
	err := l.c.retries.do(ctx, l.c.retries.before(l.end, createBudget), func(ctx context.Context) error {
		n, err := l.c.timedCreate(ctx, items)
		created += n
		return err
	})
	if err != nil {
		return l.failed("create successor of", err)
	}
	if created < len(items) { // some exist already: check their engine
		if err := l.c.ownSuccessors(ctx, items); err != nil {
			return l.failed("read successor of", err)
		}
	}
	last, v, err := l.c.apply(ctx, l.c.retries.before(l.end, completeBudget), l.Item.ID, Complete{Holder: l.Holder, Successors: it.Successors})
	if err != nil {
		return l.failed("complete", err)
	}
	if v == NoSuccessors || v == Mismatch {
		// The store lost an acknowledged write. The item stays open, and its next holder does its range again.
		return fmt.Errorf("%s: stored successors are not those that were stored (%s): %w", l.ID.Name(), v, fault.ErrLeaseLost)
	}
	return l.endsAs(last, v)
}

// endsAs records the final state of the item.
func (l *Lease) endsAs(it Item, v Result) error {
	if err := l.expect(v, Applied, Already); err != nil {
		return err
	}
	l.c.ended.add(it.ID, l.c.clock.Read().Mono)
	l.ending.Lock()
	defer l.ending.Unlock()
	l.ended = &it
	return nil
}

// Ended returns the item as Complete or Handoff left it; false before that, and when the lease ended otherwise.
func (l *Lease) Ended() (Item, bool) {
	l.ending.Lock()
	defer l.ending.Unlock()
	if l.ended == nil {
		return Item{}, false
	}
	return *l.ended, true
}

// Complete completes the item: its range was done to its end.
func (l *Lease) Complete(ctx context.Context, w Work) error {
	checks, err := l.checks(w)
	if err != nil {
		return err
	}
	total := l.Item.Counts.Add(w.Counts)
	t := Complete{Holder: l.Holder, Counts: total, Checks: checks, SetupMs: w.Setup.Milliseconds()}
	if !IsSetup(l.Item.ID) {
		t.Watermark = l.ID.Cursor + total.Ordinals
	}
	it, v, err := l.complete(ctx, t)
	if err != nil {
		return l.failed("complete", err)
	}
	if v == Mismatch && it.Holder == l.Holder && it.Successors != "" {
		return l.finish(ctx, it)
	}
	return l.endsAs(it, v)
}

// complete sends the completion: with the completions of the group, or by itself if that does not settle it.
func (l *Lease) complete(ctx context.Context, t Complete) (Item, Result, error) {
	if l.group != nil {
		if o, settled := l.group.complete(ctx, l, t); settled {
			return o.Item, o.Result, nil
		}
	}
	return l.c.apply(ctx, l.c.retries.before(l.end, completeBudget), l.Item.ID, t)
}

// Release releases the item. It returns no error when the lease is already lost.
func (l *Lease) Release(ctx context.Context, cause Cause) error {
	return l.ReleaseWith(ctx, EarlyRelease{Cause: cause})
}

// EarlyRelease describes the release of a lease before its end.
type EarlyRelease struct {
	Cause Cause
	// Longer means that the lease was too short: the next one is longer, and no attempt counts.
	Longer bool
	// Watermark, if it is beyond Start, is recorded for the next holder to start at; Work holds the results below it.
	Watermark int64
	Work      Work
}

// ReleaseWith is a Release that records the durable progress in the same request. If the store does not answer, the coordinator releases the
// item before its next acquisition.
func (l *Lease) ReleaseWith(ctx context.Context, r EarlyRelease) error {
	t := Release{Holder: l.Holder, Cause: string(r.Cause), Counted: r.Cause.counted() && !r.Longer, Longer: r.Longer, Begin: l.begin}
	if r.Watermark > l.begin {
		checks, err := l.checks(r.Work)
		if err != nil {
			return err
		}
		t.Watermark, t.Counts, t.Checks, t.SetupMs = r.Watermark, l.Item.Counts.Add(r.Work.Counts), checks, r.Work.Setup.Milliseconds()
	}
	_, v, err := l.c.apply(ctx, l.c.retries.before(l.end, successorBudget), l.Item.ID, t)
	if err != nil {
		l.c.owe(l.Item.ID, t)
		return l.failed("release", err)
	}
	if v == Foreign {
		return ErrSchemaMismatch
	}
	return nil
}

// Over reports whether the store has recorded that this lease completed the item, for when the answer was lost.
func (l *Lease) Over(ctx context.Context) bool {
	it, err := l.c.store.Get(ctx, l.Item.ID)
	if err != nil || it.Holder != l.Holder || it.Open() || it.FailedItem() {
		return false
	}
	l.ending.Lock()
	defer l.ending.Unlock()
	l.ended = &it
	return true
}

// Fail marks the item FAILED and emits one event.
func (l *Lease) Fail(ctx context.Context, reason string, part json.RawMessage) error {
	checks := ""
	if len(part) > 0 {
		var err error
		if checks, err = l.checks(Work{Checks: part}); err != nil {
			return err
		}
	}
	_, v, err := l.c.apply(ctx, l.c.retries.before(l.end, completeBudget), l.Item.ID,
		Fail{Holder: l.Holder, Reason: reason, GraceMs: l.c.grace.Milliseconds(), Checks: checks})
	if err != nil {
		return l.failed("fail", err)
	}
	if err := l.expect(v, Applied, Already); err != nil {
		return err
	}
	_, err = l.c.Event(ctx, l.Item.ID, "failed", reason)
	return err
}

// checks returns the item's checks with the part of this acquisition appended.
func (l *Lease) checks(w Work) (string, error) {
	var all []json.RawMessage
	if l.Item.Checks != "" {
		if err := json.Unmarshal([]byte(l.Item.Checks), &all); err != nil {
			return "", fmt.Errorf("checks of %s: %w: %w", l.ID.Name(), err, fault.ErrCorrupt)
		}
	}
	if len(w.Checks) > 0 {
		all = append(all, w.Checks)
	}
	if len(all) == 0 {
		return "", nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("checks of %s: %w", l.ID.Name(), err)
	}
	return string(b), nil
}

func (l *Lease) expect(v Result, good ...Result) error {
	for _, g := range good {
		if v == g {
			return nil
		}
	}
	switch v {
	case Foreign:
		return l.lose(fmt.Errorf("%s: %w", l.ID.Name(), ErrSchemaMismatch))
	case Short:
		return fmt.Errorf("%s: %w, ordinal %d", l.ID.Name(), ErrShort, l.Item.End)
	}
	return l.lose(fmt.Errorf("%s (%s): %w", l.ID.Name(), v, fault.ErrLeaseLost))
}

func (l *Lease) failed(what string, err error) error {
	switch {
	case errors.Is(err, ErrStoreGone):
		return l.lose(fmt.Errorf("%s %s: %w", what, l.ID.Name(), err))
	case errors.Is(err, ErrNotFound):
		return l.lose(fmt.Errorf("%s %s: %w: %w", what, l.ID.Name(), err, ErrStoreGone))
	}
	return fmt.Errorf("%s %s: %w", what, l.ID.Name(), err)
}
