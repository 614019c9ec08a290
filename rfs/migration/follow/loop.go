package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// Loop runs rounds and cut-overs in sequence when they are due. While the operator wants no work, it starts neither.
//
// A loop has no state that another one needs. The start of a round, its arrival, each step of a cut-over and the operator's orders are
// records that are changed by conditional writes, and each step is idempotent. So the next loop continues where the last one stopped.
type Loop struct {
	// Open passes the session of round 0. A store that is a file is open only during the call, because rounds and orders open it, too.
	Open  func(ctx context.Context, f func(root *cms.Coordinator) error) error
	Clock timing.Clock
	Every time.Duration // between the starts of two rounds; a round that takes longer is followed by the next one immediately
	// Early starts the first round immediately, and a round after a cut-over that has returned.
	Early bool
	// Retries repeats failed rounds and cut-overs, with a back-off. Otherwise the first failure ends the loop, unless a cluster or the
	// repository did not answer, or the snapshot of a round failed: that is repeated in any case.
	Retries bool
	// Round starts the round that is due, or continues it, and reports whether it has arrived; with an error parts of it failed.
	Round func(ctx context.Context) (arrived bool, err error)
	// CutOver executes the order to cut over until it is done or has returned. It reports whether the following has ended.
	CutOver func(ctx context.Context) (ended bool, err error)
	// Shows shows why nothing is due, until the function that it returns is called. nil: not shown.
	Shows func(ctx context.Context, why Pause) (stop func())
	Log   *slog.Logger
}

// Pause is the reason why a loop runs neither a round nor a cut-over.
type Pause struct {
	Next   time.Time      // start of the next round, by the store's clock
	Again  time.Time      // next try after a failure, by the clock of this machine
	Intent session.Intent // of the operator, who wants no work unless Next or Again is set
}

// backOff is the end of the pause after a failure.
type backOff struct {
	mono time.Duration // on the monotonic clock
	wall time.Time
}

// lookEvery is the interval at which a loop checks for orders and for a due round.
const lookEvery = 2 * time.Second

// recordWithin limits the time for reading and for recording what a failure has left.
const recordWithin = 10 * time.Second

// inOutage is the longest pause while writes to the source are blocked.
const inOutage = 5 * time.Second

// failures is the back-off after consecutive failed rounds and cut-overs.
var failures = retry.Policy{First: 5 * time.Second, Max: 5 * time.Minute}

// Run runs the loop until a cut-over has ended the following, with nil; until a failure that is not retried; or until ctx is done. It
// returns session.ErrFinished if the following has ended otherwise.
func (l *Loop) Run(ctx context.Context) error { return l.run(ctx, ctx) }

// run ends when led is done, but a cut-over in progress continues until ctx is done.
func (l *Loop) run(ctx, led context.Context) error {
	early, failed, again := l.Early, 0, backOff{}
	for {
		now, err := l.await(led, early, again)
		if err != nil {
			return err
		}
		ended := false
		if now.cutOver {
			ended, err = l.CutOver(ctx)
		} else {
			err = l.round(led)
		}
		var paused *session.PausedError
		held := err != nil && (errors.As(err, &paused) || l.Retries && l.held(led))
		early = l.Early && (now.cutOver || held)
		switch {
		case ended:
			return nil
		case led.Err() != nil:
			return cmp.Or(err, led.Err())
		case err == nil:
			failed = 0
		case held: // it continues when the operator wants work again
		case !l.Retries && !passing(err):
			if !now.cutOver && !errors.Is(err, fault.ErrConfig) && !errors.Is(err, cms.ErrStoreGone) {
				l.record(led, now.round, err)
			}
			return err
		default:
			failed++
			pause := failures.Pause(failed)
			now = l.lookAgain(led, now)
			if now.outage {
				pause = min(pause, inOutage)
			}
			read := l.Clock.Read()
			again = backOff{read.Mono + pause, read.Wall.Add(pause)}
			l.Log.Warn("the round or the cut-over has not ended", "round", now.round, "reason", fault.Text(err), "next_try_in", pause.Round(time.Second))
			l.record(led, now.round, err)
		}
	}
}

// lookAgain returns the pending tasks after a failure: a round that was started, or blocks on the source that stay until the next try. It
// returns was if the store does not answer soon.
func (l *Loop) lookAgain(ctx context.Context, was due) due {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	is, err := l.look(ctx)
	if err != nil {
		return was
	}
	return is
}

// passing reports whether the cause of a failure may pass without an operator.
func passing(err error) bool {
	var failed *phase.PhaseFailed
	return errors.Is(err, fault.ErrUnavailable) || errors.As(err, &failed) && failed.Renewed
}

// round runs a round. It only logs failed parts of a round that has arrived.
func (l *Loop) round(ctx context.Context) error {
	arrived, err := l.Round(ctx)
	if !arrived || err == nil {
		return err
	}
	var paused *session.PausedError
	if errors.As(err, &paused) {
		return err
	}
	l.Log.Warn("parts of the round failed; the next round starts nevertheless", "reason", fault.Text(err))
	return nil
}

// await blocks until a round or a cut-over is due, which a round is immediately with early, but nothing is before the end of a back-off.
// It returns session.ErrFinished if the following has ended.
func (l *Loop) await(ctx context.Context, early bool, again backOff) (now due, err error) {
	var shown *Pause
	stop := func() {}
	defer func() { stop() }()
	for {
		if now, err = l.look(ctx); err != nil {
			return now, err
		}
		why, wait := Pause{Intent: now.intent}, lookEvery
		switch {
		case now.over:
			return now, session.ErrFinished
		case now.held():
		case l.Clock.Read().Mono < again.mono:
			why.Again = again.wall
		case now.cutOver, early, now.left <= 0:
			return now, nil
		default:
			why.Next, wait = now.next, min(now.left, lookEvery)
		}
		if l.Shows != nil && (wait == lookEvery) && (shown == nil || !shown.Next.Equal(why.Next) || !shown.Again.Equal(why.Again)) {
			stop()
			stop, shown = l.Shows(ctx, why), &why
		}
		if err := l.Clock.Sleep(ctx, wait); err != nil {
			return now, err
		}
	}
}

// held reports whether the operator has paused or drained the fleet, which ends a round.
func (l *Loop) held(ctx context.Context) bool {
	is, err := l.look(ctx)
	return err == nil && is.held()
}

// record counts the failure of a round or cut-over, and records it as an event, once per round.
func (l *Loop) record(ctx context.Context, round int, reason error) {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	err := l.Open(ctx, func(root *cms.Coordinator) error {
		err := session.RoundsOf(root).Fail(ctx, fault.Text(reason))
		_, eerr := root.Event(ctx, fmt.Sprintf("round %d", round), "round_failed", fault.Text(reason))
		return errors.Join(err, eerr)
	})
	if err != nil {
		l.Log.Debug("failure not recorded", "error", err)
	}
}

// due holds the pending tasks of a loop.
type due struct {
	round   int  // number of the last round
	over    bool // the following has ended, and settings of the target are restored
	cutOver bool
	outage  bool           // the outage of the cut-over has started
	intent  session.Intent // of the operator
	next    time.Time      // start of the next round, by the store's clock
	left    time.Duration  // until the next round
}

// held reports whether nothing may run. A cut-over whose outage has started runs in any case, to return or to end.
func (is due) held() bool { return is.intent.State != session.Run && !is.outage }

// look returns the pending tasks.
func (l *Loop) look(ctx context.Context) (is due, err error) {
	err = l.Open(ctx, func(root *cms.Coordinator) error {
		all, err := session.RoundsOf(root).Read(ctx)
		if err != nil {
			return err
		}
		cutover, _, err := session.CutoversOf(root).Read(ctx)
		if err != nil {
			return err
		}
		if is.intent, err = Wanted(ctx, root); err != nil {
			return err
		}
		now, _, err := root.Leases().Now(ctx)
		is.cutOver, is.outage = cutover.Open(), cutover.Started()
		last, _ := all.Last()
		is.round, is.over, is.next = last.Number, all.Finished != 0 && !is.cutOver, Due(all, l.Every)
		is.left = is.next.Sub(now)
		return err
	})
	return is, err
}
