package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// lastTimeout is the timeout of the write that releases an item.
const lastTimeout = 5 * time.Second

// idle are the pauses of a worker that found no item free.
var idle = retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: retry.Half}

// errHandOff ends a reading early: a successor covers the rest.
var errHandOff = errors.New("the rest is handed off")

// turn admits one worker of a process at a time to a queue's search, and records that the queue has ended.
type turn struct {
	place chan struct{}
	ended bool // guarded by place
}

// work processes items until the comparison has ended: first both sides concurrently, then the results.
func (s *session) work(ctx context.Context) error {
	if err := s.serveAll(ctx, s.part, ofSource, ofTarget); err != nil {
		return err
	}
	for side := range s.parts {
		s.parts[side] = map[string]cms.Item{}
		for it, err := range s.queues[side].Items(ctx) {
			if err != nil {
				return err
			}
			s.parts[side][it.ID] = it
		}
	}
	return s.serveAll(ctx, s.settleBatch, results)
}

// serveAll processes items of some queues until they have ended.
func (s *session) serveAll(ctx context.Context, do func(context.Context, int, *cms.Lease) error, queues ...int) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, queue := range queues {
		for slot := range s.Readers {
			g.Go(func() error { return s.serve(ctx, queue, slot, do) })
		}
	}
	return g.Wait()
}

// serve processes items of one queue until it has ended.
func (s *session) serve(ctx context.Context, queue, slot int, do func(context.Context, int, *cms.Lease) error) error {
	holder := fmt.Sprintf("%s_%s%d", s.Work.Holder, kinds[queue][len(recordKind):], slot)
	for {
		lease, err := s.next(ctx, queue, holder)
		if lease == nil || err != nil {
			return err
		}
		err = do(ctx, queue, lease)
		switch {
		case errors.Is(err, fault.ErrLeaseLost), errors.Is(err, errTooShort):
			s.Log.InfoContext(ctx, "part of the comparison is started again", "unit", lease.ID.Index, "reason", fault.Text(err))
		case err != nil:
			return err
		}
	}
}

// next blocks until it has leased an item, and returns nil when the queue has ended.
func (s *session) next(ctx context.Context, queue int, holder string) (*cms.Lease, error) {
	t := &s.turns[queue]
	select {
	case t.place <- struct{}{}:
		defer func() { <-t.place }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for n := 1; !t.ended; n++ {
		lease, err := s.queues[queue].AcquireNext(ctx, holder, nil)
		var none *cms.NoneAvailable
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, cms.ErrAllDone):
			report, err := s.queues[queue].AuditTasks(ctx, slices.Values(s.roots[queue]))
			if err != nil {
				return nil, err
			}
			if t.ended = report.Clean(); t.ended {
				return nil, nil
			}
		case !errors.As(err, &none):
			return nil, err
		case n == waitsBeforeLog && !strings.HasPrefix(none.Holder, s.Work.Holder+"_"):
			s.Log.InfoContext(ctx, "other processes compare the rest", "parts", none.Open, "holder", none.Holder, "lease_until", none.NextExpiry)
		}
		if err := s.Pause(ctx, idle.Pause(n)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// waitsBeforeLog is the number of searches without a free item, some seconds, after which the log names the process that holds one.
const waitsBeforeLog = 6

// errTooShort means that a lease ended before the work. The next one is longer.
var errTooShort = errors.New("the lease was too short")

// under runs work under a lease. due is set shortly before the lease ends. After an error it releases the item.
func (s *session) under(ctx context.Context, lease *cms.Lease, work func(ctx context.Context, due *atomic.Bool) error) error {
	var due atomic.Bool
	guarded, stop := lease.Watch(ctx, func() error {
		due.Store(lease.UntilTrigger() <= 0)
		return nil
	})
	err := work(guarded, &due)
	over := guarded.Err() != nil && ctx.Err() == nil
	stop()
	if err == nil {
		return nil
	}
	r := cms.EarlyRelease{Cause: cms.CauseOutage}
	switch {
	case lease.Lost() != nil:
		return fmt.Errorf("%s: %w", lease.ID.Name(), lease.Lost())
	case over:
		r.Longer, err = true, errTooShort
	case ctx.Err() != nil:
		r.Cause = cms.CauseDrain
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if rerr := lease.ReleaseWith(late, r); rerr != nil {
		s.Log.DebugContext(ctx, "part of the comparison was not released", "unit", lease.ID.Index, "error", rerr)
	}
	return err
}

// part reads the range of an item, stores its findings, and ends the item. An item of the source that takes longer than its
// lease hands off the rest. A shard of the target is read in one consistent state, so that it needs a longer lease instead.
func (s *session) part(ctx context.Context, side int, lease *cms.Lease) error {
	u := s.byRoot[side][cms.ItemID{Index: lease.ID.Index, Shard: lease.ID.Shard}]
	return s.under(ctx, lease, func(ctx context.Context, due *atomic.Bool) error {
		if u == nil { // of a unit whose content has changed
			return s.leave(ctx, side, lease)
		}
		p := reading{session: s, side: side, unit: u, start: lease.Start(), due: due, hash: newHasher()}
		err := s.readUnit(ctx, side, u.Unit, lease.Start(), p.restart)
		problem := ""
		switch {
		case errors.Is(err, errHandOff):
		case ctx.Err() == nil && unreadable(err):
			s.Log.WarnContext(ctx, "a part cannot be read", "unit", u.Name, "error", err)
			if problem = fault.Text(err); !errors.Is(err, fault.ErrCorrupt) {
				p.found = nil
			}
		case err != nil:
			return err
		}
		if err := s.saveBlob(ctx, s.partID(lease.Item.ID, p.end), encodeTallied(p.found, problem)); err != nil {
			return err
		}
		if errors.Is(err, errHandOff) {
			return lease.Handoff(ctx, p.end, cms.Work{Counts: p.counts()})
		}
		return lease.Complete(ctx, cms.Work{Counts: p.counts()})
	})
}

// leave completes an item whose unit has a newer first item. It returns ErrNotShared for the newest one, which another process
// created while this one held no lease.
func (s *session) leave(ctx context.Context, side int, lease *cms.Lease) error {
	is, err := s.readItems(ctx)
	if err != nil {
		return err
	}
	if lease.ID.Shard == is.roots[side][lease.ID.Index].ID.Shard {
		return fmt.Errorf("%w: another process reads parts again that have changed", ErrNotShared)
	}
	return lease.Complete(ctx, cms.Work{})
}

// reading is one reading of the range of an item.
type reading struct {
	*session
	side  int
	unit  *unitOf
	start int64
	due   *atomic.Bool // the lease is about to end
	hash  *hasher
	found tallies
	read  cms.Counts
	end   int64 // ordinal after the last document
}

// restart drops the documents read so far and returns a function that counts documents.
func (p *reading) restart() func(*Document) error {
	p.found, p.read, p.end = tallies{}, cms.Counts{}, p.start
	target := ""
	for name := range p.unit.of {
		target = name
	}
	return func(d *Document) error {
		if p.side == ofSource && p.read.Live > 0 && p.due.Load() {
			return errHandOff
		}
		index := d.Index
		if p.side == ofTarget {
			index = []byte(target)
		}
		t := p.found.of(index, p.unit.of)
		if t == nil {
			return fmt.Errorf("%s, ordinal %d: the document goes to %q, which is not one of its target indices: %w", p.unit.Name, d.Ordinal, d.Index, fault.ErrUnsupported)
		}
		p.tally(p.hash, t, d)
		p.read.Live++
		p.read.Bytes += int64(len(d.Source))
		switch d.Fate {
		case Filtered:
			p.read.Filtered++
		case Unsent:
			p.read.Failed++
		default:
			p.read.Indexed++
		}
		if p.side == ofSource {
			p.end = d.Ordinal + 1
		} else {
			p.end = p.read.Live
		}
		return nil
	}
}

// counts returns the counts of the item.
func (p *reading) counts() cms.Counts {
	c := p.read
	c.Ordinals = p.end - p.start
	return c
}

// settleBatch settles the groups of an item, and stores the result.
func (s *session) settleBatch(ctx context.Context, _ int, lease *cms.Lease) error {
	return s.under(ctx, lease, func(ctx context.Context, _ *atomic.Bool) error {
		groups := s.groups[min(lease.ID.Shard*batch, len(s.groups)):min((lease.ID.Shard+1)*batch, len(s.groups))]
		if _, err := s.blob(ctx, s.resultID(lease.ID.Shard)); !errors.Is(err, cms.ErrNotFound) { // stored by a holder that died afterwards
			if err != nil {
				return err
			}
			return lease.Complete(ctx, cms.Work{})
		}
		var all []*Index
		for _, x := range groups {
			found, err := s.group(ctx, x)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		b, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if err := s.saveBlob(ctx, s.resultID(lease.ID.Shard), b); err != nil {
			return err
		}
		return lease.Complete(ctx, cms.Work{Counts: cms.Counts{Ordinals: int64(len(groups))}})
	})
}

// chain returns the items of a unit, in order. All have ended.
func (s *session) chain(side int, u *unitOf) (all []cms.Item) {
	root := u.root.ID
	root.Kind = s.queues[side].Kind()
	for id := root.String(); id != ""; {
		it, ok := s.parts[side][id]
		if !ok {
			return all
		}
		all, id = append(all, it), it.Successors
	}
	return all
}

// group merges the findings of the items of a group, and names the differences.
func (s *session) group(ctx context.Context, x *grouped) ([]*Index, error) {
	for _, c := range x.all {
		c.open(x.Group)
	}
	defer func() {
		for _, c := range x.all {
			c.sides = [2]*table{}
		}
	}()
	var problems []string
	for side, units := range x.units {
		for _, u := range units {
			for _, it := range s.chain(side, u) {
				problem, err := s.merge(ctx, side, u, it)
				if err != nil {
					return nil, err
				}
				if problem != "" {
					problems = append(problems, problem)
				}
			}
		}
	}
	slices.Sort(problems)
	var all []*Index
	for _, name := range x.Targets {
		c := x.all[name]
		c.result.Problems = problems
		if err := s.settle(ctx, x.Group, c); err != nil {
			return nil, err
		}
		all = append(all, c.result)
	}
	return all, nil
}

// merge adds the findings of an item.
func (s *session) merge(ctx context.Context, side int, u *unitOf, it cms.Item) (problem string, err error) {
	b, err := s.savedBlob(ctx, s.partID(it.ID, it.Watermark))
	if err != nil {
		return "", fmt.Errorf("%s: %w", u.Name, err)
	}
	found, problem, err := decodeTallied(b, u.of)
	if err != nil {
		return "", fmt.Errorf("%s: the results of the comparison are %w: %w", u.Name, err, fault.ErrCorrupt)
	}
	for name, t := range found {
		u.of[name].take(side, t)
	}
	return problem, nil
}

// result returns the results of all groups. The process that records the end of the comparison removes all other records.
func (s *session) result(ctx context.Context) ([]*Index, error) {
	var all []*Index
	for i := range s.roots[results] {
		b, err := s.savedBlob(ctx, s.resultID(i))
		if err != nil {
			return nil, err
		}
		var found []*Index
		if err := json.Unmarshal(b, &found); err != nil {
			return nil, fmt.Errorf("result of the comparison: %w: %w", err, fault.ErrCorrupt)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b *Index) int { return strings.Compare(a.Target, b.Target) })
	ch, err := s.records.Update(ctx, stateID, recordKind, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		var is state
		if r.State != stateRunning || json.Unmarshal(r.Body, &is) != nil || is.Run != s.state.Run {
			return r, cms.Already
		}
		r.State = stateCompleted
		return r, cms.Applied
	})
	if err != nil {
		return nil, fmt.Errorf("end the comparison: %w", err)
	}
	if ch.Result == cms.Applied {
		s.forget(ctx, s.state.Run, resultPart)
	}
	return all, nil
}
