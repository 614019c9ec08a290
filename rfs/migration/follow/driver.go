package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Driver starts and completes rounds for a fleet whose nodes work on their items. Each node has a Driver, but only one of them is active:
// the holder of a lock in the session of round 0. It does not depend on gossip or Raft.
//
// A driver has no state of its own. The start of a round, its arrival, each step of a cut-over and the operator's orders are records that
// are changed by conditional writes, and each step is idempotent. So the next driver continues where the last one stopped, and a former
// driver that resumes late does no harm.
type Driver struct {
	Root  *cms.Coordinator // of the session of round 0
	Clock timing.Clock
	TTL   time.Duration // TTL of the lock: after a crash of its holder no node drives until it expires
	// Ask returns the maximum interval at which other nodes request the lock, which a driver releases when it is stopped.
	Ask   func() time.Duration
	Every time.Duration // between the starts of two rounds
	// Round starts the round that is due, or continues it, and returns nil once it has arrived. Its context ends when this node loses the
	// lock.
	Round func(ctx context.Context) error
	// CutOver executes the order to cut over until it is done or has returned. It continues even if this node loses the lock, so that write
	// blocks are removed in time although the store does not answer.
	CutOver func(ctx context.Context) error
	Log     *slog.Logger
}

// lockName is the name of the drivers' lock.
const lockName = "follow"

// lookEvery is the interval at which a driver checks for orders and for a due round.
const lookEvery = 2 * time.Second

// failures is the back-off after consecutive failed rounds and cut-overs.
var failures = retry.Policy{First: 5 * time.Second, Max: 5 * time.Minute}

// Run drives while this node holds the lock, for which it waits. It returns when the following has ended or ctx is done. It logs errors and
// retries.
func (d *Driver) Run(ctx context.Context) {
	locks := primitive.Locks{Store: d.Root.Store(), Clock: d.Clock, Ask: d.Ask}
	warned := false
	for ctx.Err() == nil {
		err := locks.Lead(ctx, lockName, d.TTL, func(led context.Context) error {
			d.Log.Info("this node drives the rounds of its fleet")
			warned = false
			return d.drive(ctx, led)
		})
		if err == nil {
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

// drive runs rounds and cut-overs when they are due, until the following has ended. led ends when the lock is lost.
func (d *Driver) drive(ctx, led context.Context) error {
	failed, again := 0, time.Duration(0)
	for {
		now, err := d.look(led)
		if err != nil {
			return err
		}
		wait := lookEvery
		switch {
		case now.over:
			return nil
		case now.held(), d.Clock.Read().Mono < again:
		case now.cutOver:
			err, wait = d.CutOver(ctx), 0
		case now.left <= 0:
			err, wait = d.Round(led), 0
		default:
			wait = min(now.left, lookEvery)
		}
		switch {
		case led.Err() != nil:
			return led.Err()
		case err != nil && d.held(led):
		case err != nil:
			failed++
			pause := failures.Pause(failed)
			again = d.Clock.Read().Mono + pause
			d.report(led, now.round, err, pause)
		case wait == 0:
			failed = 0
		}
		if err := d.Clock.Sleep(led, wait); err != nil {
			return err
		}
	}
}

// held reports whether the operator has paused or drained the fleet, which ends a round.
func (d *Driver) held(ctx context.Context) bool {
	is, err := d.look(ctx)
	return err == nil && is.held()
}

// report logs the failure of a round or cut-over, counts it, and records it as an event, once per round.
func (d *Driver) report(ctx context.Context, round int, reason error, pause time.Duration) {
	d.Log.Warn("the round or the cut-over has not ended", "round", round, "reason", fault.Text(reason), "next_try_in", pause.Round(time.Second))
	if err := session.RoundsOf(d.Root).Fail(ctx, fault.Text(reason)); err != nil {
		d.Log.Debug("failure not counted", "error", err)
	}
	if _, err := d.Root.Event(ctx, fmt.Sprintf("round %d", round), "round_failed", fault.Text(reason)); err != nil {
		d.Log.Debug("event not stored", "error", err)
	}
}

// due holds the pending tasks of a driver.
type due struct {
	round   int  // number of the last round
	over    bool // the following has ended, and settings of the target are restored
	cutOver bool
	outage  bool               // the outage of the cut-over has started
	state   session.FleetState // state requested by the operator
	left    time.Duration      // until the next round
}

// held reports whether nothing may run. A cut-over whose outage has started runs in any case, to return or to end.
func (is due) held() bool { return is.state != session.Run && !is.outage }

// look returns the pending tasks.
func (d *Driver) look(ctx context.Context) (is due, err error) {
	all, err := session.RoundsOf(d.Root).Read(ctx)
	if err != nil {
		return is, err
	}
	cutover, _, err := session.CutoversOf(d.Root).Read(ctx)
	if err != nil {
		return is, err
	}
	intent, err := Wanted(ctx, d.Root)
	if err != nil {
		return is, err
	}
	now, _, err := d.Root.Leases().Now(ctx)
	is.cutOver, is.outage, is.state = cutover.Open(), cutover.Started(), intent.State
	last, _ := all.Last()
	is.round, is.over, is.left = last.Number, all.Finished != 0 && !is.cutOver, Due(all, d.Every).Sub(now)
	return is, err
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

// Now returns the current round of a fleet, or the last one.
func (c *Chain) Now(ctx context.Context, every time.Duration) (now Now, err error) {
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
