package follow

import (
	"context"
	"errors"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Driver runs the rounds of a fleet whose nodes work on their items. Each node has a Driver, but only one of them is active: the holder of
// a lock in the session of round 0. It does not depend on gossip or Raft. A former driver that resumes late does no harm.
type Driver struct {
	// Loop runs while this node has the lock. Its Open and Retries are set by Run. A cut-over in progress continues even if this node loses
	// the lock, so that write blocks are removed in time although the store does not answer.
	Loop
	Root *cms.Coordinator // of the session of round 0
	TTL  time.Duration    // TTL of the lock: after a crash of its holder no node drives until it expires
	// Ask returns the maximum interval at which other nodes request the lock, which a driver releases when it is stopped.
	Ask func() time.Duration
}

// lockName is the name of the drivers' lock.
const lockName = "follow"

// Run drives while this node holds the lock, for which it waits. It returns when the following has ended or ctx is done. It logs errors and
// retries.
func (d *Driver) Run(ctx context.Context) {
	loop := d.Loop
	loop.Retries = true
	loop.Open = func(_ context.Context, f func(*cms.Coordinator) error) error { return f(d.Root) }
	locks := primitive.Locks{Store: d.Root.Store(), Clock: d.Clock, Ask: d.Ask}
	warned := false
	for ctx.Err() == nil {
		err := locks.Lead(ctx, lockName, d.TTL, func(led context.Context) error {
			d.Log.Info("this node drives the rounds of its fleet")
			warned = false
			return loop.run(ctx, led)
		})
		if err == nil || errors.Is(err, session.ErrFinished) {
			return // the following has ended
		}
		if ctx.Err() == nil && !warned {
			warned = true
			d.Log.Warn("this node does not drive the rounds of its fleet", "reason", fault.Text(err), "next_try_in", lookEvery)
		}
		if d.Clock.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}

// Wanted returns the operator's intent for all rounds, which is stored in the session of round 0, root. An unreadable record means run.
func Wanted(ctx context.Context, root *cms.Coordinator) (session.Intent, error) {
	is, err := session.OrdersOf(root).Intent(ctx)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrConfig) {
		return is, nil
	}
	return is, err
}

// Due returns when the next round starts, by the store's clock: every after the start of the last one. It returns the zero time if the
// round is due immediately: no round has started, or the last one has not arrived.
func Due(all session.Followed, every time.Duration) time.Time {
	last, started := all.Last()
	if !started || last.Arrived == 0 {
		return time.Time{}
	}
	return time.UnixMilli(last.Started).Add(every)
}

// Now is the round that a fleet works on.
type Now struct {
	Round
	Next time.Time // start of the next round, by the store's clock; zero: a round is in progress
	// Started is false before the first round; Over is true after the following has ended.
	Started, Over bool
}

// Now returns the current round of a fleet, or the last one. It returns session.ErrUndone if the session was undone.
func (c *Chain) Now(ctx context.Context, every time.Duration) (now Now, err error) {
	if err := session.IdentityOf(c.Root).CheckUndone(ctx); err != nil {
		return now, err
	}
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return now, err
	}
	last, started := all.Last()
	if now.Started = started; !started {
		now.Session = c.Session
		return now, nil
	}
	var settings map[string]string
	if last.Number == 0 {
		if settings, err = c.settings(ctx); err != nil {
			return now, err
		}
	}
	now.Next = Due(all, every)
	if now.Round, err = c.round(all, len(all.Rounds)-1, settings); err != nil || all.Finished == 0 {
		return now, err
	}
	cutover, _, err := session.CutoversOf(c.Root).Read(ctx)
	now.Over = !cutover.Open()
	return now, err
}
