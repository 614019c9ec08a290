package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/cutover"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// orders keep the order to cut over. The store is opened for each access: a round opens it, too, and locks it where it is a file.
type orders struct{ rounds }

func (o orders) open(ctx context.Context, f func(session.Cutovers) error) error {
	return o.chain(ctx, func(c *follow.Chain) error { return f(session.CutoversOf(c.Root)) })
}

// Read returns the order.
func (o orders) Read(ctx context.Context) (is session.Cutover, now time.Time, err error) {
	err = o.open(ctx, func(s session.Cutovers) (err error) {
		is, now, err = s.Read(ctx)
		return err
	})
	return is, now, err
}

// Move changes the order.
func (o orders) Move(ctx context.Context, from session.Cutover, f func(*session.Cutover, int64)) (is session.Cutover, err error) {
	err = o.open(ctx, func(s session.Cutovers) (err error) {
		is, err = s.Move(ctx, from, f)
		return err
	})
	return is, err
}

// Return orders the cut-over to return.
func (o orders) Return(ctx context.Context, reason string) (is session.Cutover, err error) {
	err = o.open(ctx, func(s session.Cutovers) (err error) {
		is, err = s.Return(ctx, reason)
		return err
	})
	return is, err
}

// ordered returns the cut-over that has to be carried out, if it is open.
func (r rounds) ordered(ctx context.Context) (session.Cutover, error) {
	is, _, err := orders{r}.Read(ctx)
	return is, err
}

// wanted returns the operator's intent. A process of its own takes no order about the number of workers.
func (r rounds) wanted(ctx context.Context) (session.Intent, error) {
	is, err := r.intent(ctx)
	if r.Driver == nil {
		is.Workers = nil
	}
	return is, err
}

// errReturned means that a cut-over has returned, and errGroup that some indices were cut over: following continues.
var (
	errReturned = errors.New("the cut-over has returned")
	errGroup    = errors.New("some indices were cut over, and the others are followed")
)

// fits returns an error if this process has other options than the session: it must not block, or unblock, what it selects.
func (r rounds) fits(ctx context.Context, blobs repo.Repository) error {
	if !r.MakesSnapshots() {
		return config.Usage("a cut-over is ordered, which makes a snapshot on the source: give --source-host, and no --snapshot-name; `rfsctl cutover --abort` withdraws the order")
	}
	return r.chain(ctx, func(c *follow.Chain) error { return c.Check(ctx, r.SessionSettings(blobs)) })
}

// cutOver carries out the order to cut over, and reports it. Errors: errReturned, errGroup.
func (r rounds) cutOver(ctx context.Context) error {
	blobs, err := wiring.OpenRepository(ctx, r.Options)
	if err != nil {
		return err
	}
	if err := r.fits(ctx, blobs); err != nil {
		left := "waits for"
		if is, _ := r.ordered(ctx); len(is.Blocks) > 0 {
			left = "keeps its write blocks on " + fault.Names(is.Blocks, 20) + " until the next run of"
		}
		return fmt.Errorf("the cut-over %s %s with the options of the session: %w", left, r.program, err)
	}
	all, err := r.read(ctx)
	if err != nil {
		return err
	}
	request := r.Request()
	request.Follow = &plan.Follow{Ended: all.EndedBefore(math.MaxInt)}
	c := &cutover.Cutover{
		Records: orders{r}, Intent: r.wanted, Program: r.program, MayBlock: r.mayBlock, Selects: request.Selects, Round: r.further, Verify: r.verify, Failed: r.failed, Finish: r.finish, Move: r.move, Repo: blobs, Clock: timing.SystemClock(), Log: r.log,
		Connect: func(ctx context.Context) (cutover.Source, string, error) {
			source, err := r.LiveSource().Open(ctx)
			if err != nil {
				return nil, "", err
			}
			return source, source.UUID(), nil
		},
	}
	is, err := c.Run(ctx)
	if err == nil && is.State == session.CutoverReturned {
		err = fmt.Errorf("%w: %s", errReturned, is.Reason)
	}
	if err == nil && len(is.Indices) > 0 {
		err = errGroup
	}
	return errors.Join(err, report.Cutover(r.out, is))
}

// cutsOver carries out the order to cut over, and reports whether the following has ended.
func (r rounds) cutsOver(ctx context.Context) (ended bool, err error) {
	err = r.cutOver(ctx)
	if errors.Is(err, errReturned) || errors.Is(err, errGroup) {
		r.log.Info("the cut-over has ended; the session is followed", "reason", fault.Text(err))
		return false, nil
	}
	return err == nil, err
}

// further runs rounds until one has arrived that was not started before. group are patterns of the indices that it brings; none: all.
func (r rounds) further(ctx context.Context, group []string) (cutover.Round, error) {
	all, err := r.read(ctx)
	if err != nil {
		return cutover.Round{}, err
	}
	before, started := all.Last()
	for {
		x, _, err := r.next(ctx, group, false)
		if err != nil {
			return cutover.Round{}, err
		}
		done, err := r.run(ctx, x)
		if done != nil {
			err = done.Conclude(r.out, err)
		}
		if err != nil && (done == nil || !done.Round.Arrived) {
			return cutover.Round{}, err
		}
		if started && x.Number <= before.Number {
			continue
		}
		is, err := r.recorded(ctx, x.Number)
		if err == nil && is.Arrived == 0 {
			err = fmt.Errorf("round %d has not arrived: %w", x.Number, fault.ErrUnavailable)
		}
		return cutover.Round{Number: x.Number, Snapshot: is.Snapshot, Failed: is.Failed}, err
	}
}

// verify compares what the last round changed with the target. A difference is an error.
func (r rounds) verify(ctx context.Context, round cutover.Round) error {
	o, err := lastRound(ctx, r.Options)
	if err != nil {
		return err
	}
	done, err := compareSource(ctx, o, config.Verification{Sample: 1, Differences: 1, Changed: true}, r.log, nil)
	if err != nil {
		return fmt.Errorf("compare what round %d changed with the target: %w", round.Number, err)
	}
	for _, x := range done.Indices {
		if x.State == verify.Different || x.State == verify.Unreadable {
			return fmt.Errorf("the target differs from what round %d changed: %s (`rfsd verify --changed` with the same options lists the documents): %w", round.Number, report.Differs(x), fault.ErrConfig)
		}
	}
	return nil
}

// move ends the following of some indices.
func (r rounds) move(ctx context.Context, indices []string) error {
	return r.chain(ctx, func(c *follow.Chain) error { return session.RoundsOf(c.Root).End(ctx, indices, true) })
}

// failed returns the number of documents that failed in all rounds.
func (r rounds) failed(ctx context.Context) (int64, error) {
	all, err := r.read(ctx)
	return all.Failed(), err
}
