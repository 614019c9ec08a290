package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

func followCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "follow", Usage: "migrate a snapshot, and then what changes in each later one", Description: help.Follow,
	}, func(ctx context.Context, call *config.Call, f config.Follow) error {
		o, err := wiring.ForMigration(version, config.Migrate(f.Migrate))
		if err != nil {
			return err
		}
		o.DeleteVanished = f.Rounds.Each.Delete
		r := rounds{Options: o, out: call.Out, program: "rfsd follow", mayBlock: f.Blocks.Block, stops: f.Rounds.Each.Stop.List, startOver: f.Rounds.Over, log: slog.New(slog.DiscardHandler)}
		r.log, _ = report.Log(o.Log)
		if r.startOver && o.Merges() {
			return config.Usage("--start-over and --rules that send documents to other indices exclude each other, because target indices cannot be replaced one by one: remove them with rfsctl undo, and start a new session (--session-name)")
		}
		if err := wiring.Contact(ctx, o, f.Rounds.Finish, r.log); err != nil {
			return err
		}
		switch {
		case f.Rounds.Finish:
			if is, err := r.ordered(ctx); err != nil || is.Open() && is.State != session.CutoverFinishing {
				return cmp.Or(err, fmt.Errorf("a cut-over by %s is %s, which ends the following itself; rfsctl cutover --abort withdraws it: %w", is.Who, is.State, fault.ErrConfig))
			}
			return r.finish(ctx)
		case f.Rounds.Once:
			is, err := r.ordered(ctx)
			if err == nil && is.Open() {
				err = r.cutOver(ctx)
			}
			switch {
			case errors.Is(err, errGroup):
				return nil
			case err != nil || is.Open():
				return err
			}
			_, err = r.round(ctx)
			return err
		}
		r.Repeats = true
		return r.repeat(ctx, f.Rounds.Each.Every)
	})
}

// rounds follows a cluster.
type rounds struct {
	wiring.Options
	out      *output.Writer
	program  string       // this command, as messages name it
	stops    pattern.List // indices that are not followed any more after the round
	mayBlock bool         // a cut-over may block writes to the source
	// startOver permits a round that replaces the session's target indices, if the former snapshot is gone.
	startOver bool
	log       *slog.Logger
}

// repeat runs rounds until one fails, a cut-over has ended the following, or ctx is done.
func (r rounds) repeat(ctx context.Context, every time.Duration) error {
	l := follow.Loop{Clock: timing.SystemClock(), Every: every, Early: true, Round: r.round, CutOver: r.cutsOver, Shows: r.shows, Log: r.log}
	l.Open = func(ctx context.Context, f func(*cms.Coordinator) error) error {
		return r.chain(ctx, func(c *follow.Chain) error { return f(c.Root) })
	}
	return l.Run(ctx)
}

// intent reads what the operator wants of all rounds.
func (r rounds) intent(ctx context.Context) (is session.Intent, err error) {
	err = r.chain(ctx, func(c *follow.Chain) (err error) {
		is, err = follow.Wanted(ctx, c.Root)
		return err
	})
	return is, err
}

// shows shows the session between two rounds, and while the operator wants no work.
func (r rounds) shows(ctx context.Context, why follow.Pause) (stop func()) {
	switch {
	case !why.Next.IsZero():
		return r.showPause(ctx, nextRound(why.Next))
	case !why.Again.IsZero():
		return r.showPause(ctx, "the last round failed; it is tried again at "+why.Again.Format(time.DateTime))
	}
	r.log.Info("the operator wants no work: no round runs until rfsctl resume", "intent", why.Intent.State, "who", why.Intent.Who)
	shown := r.showPause(ctx, "the operator wants no work")
	return func() {
		shown()
		if ctx.Err() == nil {
			r.log.Info("the work continues")
		}
	}
}

// finished is the result of rfsd follow --finish.
type finished struct {
	Restored []tuning.Restored `json:"restored"`
}

// nextRound returns why a process that follows waits between two rounds.
func nextRound(at time.Time) string {
	return "following; the next round starts at " + at.Format(time.DateTime)
}

// round runs rounds until the snapshot of the options has arrived, or one round where each makes its own. It reports whether it has
// arrived; with an error documents failed, or indices that are not followed any more.
func (r rounds) round(ctx context.Context) (arrived bool, err error) {
	if err := r.out.Flush(); err != nil {
		return false, err
	}
	for {
		next, due, err := r.next(ctx, nil, r.startOver)
		if err != nil {
			return false, err
		}
		if !due {
			return true, (&report.Arrived{Round: next.Report()}).Conclude(r.out)
		}
		done, err := r.run(ctx, next)
		arrived = err == nil
		if done != nil {
			arrived = done.Round.Arrived
			err = done.Conclude(r.out, err)
		}
		if err != nil || next.Snapshot == r.Snapshot {
			return arrived, err
		}
	}
}

// chain opens the records of the rounds, which the session of round 0 keeps. It returns cms.ErrStoreGone if they were deleted.
func (r rounds) chain(ctx context.Context, f func(*follow.Chain) error) error {
	store, shut, err := wiring.OpenWithRetry(ctx, r.Options, true, r.log)
	if err != nil {
		return err
	}
	err = f(&follow.Chain{Root: r.StateIn(store), Session: r.SessionOrDefault(), Clock: timing.SystemClock(), Log: r.log})
	return errors.Join(err, shut())
}

// next returns the round that is due. group are patterns of the indices of a new one; none: all. startOver permits a round that starts over.
func (r rounds) next(ctx context.Context, group []string, startOver bool) (next follow.Round, due bool, err error) {
	blobs, err := wiring.OpenRepository(ctx, r.Options)
	if err != nil {
		return next, false, err
	}
	err = r.chain(ctx, func(c *follow.Chain) (err error) {
		c.Repo, c.AllowPartial, c.StartOver = blobs, r.AllowPartial, startOver
		c.Open = func(ctx context.Context, x follow.Round) (*cms.Coordinator, func() error, error) {
			return r.OpenRound(ctx, x, startOver, r.log)
		}
		next, due, err = c.Next(ctx, r.Snapshot, group, r.SessionSettings(blobs))
		return err
	})
	return next, due, err
}

// recorded returns a round as it is recorded.
func (r rounds) recorded(ctx context.Context, number int) (is session.Round, err error) {
	all, err := r.read(ctx)
	if at := slices.IndexFunc(all.Rounds, func(x session.Round) bool { return x.Number == number }); at >= 0 {
		is = all.Rounds[at]
	}
	return is, err
}

// read reads the records of the rounds.
func (r rounds) read(ctx context.Context) (all session.Followed, err error) {
	err = r.chain(ctx, func(c *follow.Chain) (err error) {
		all, err = session.RoundsOf(c.Root).Read(ctx)
		return err
	})
	return all, err
}

// run runs a round, and records that it has arrived. It returns its report, also with an error; nil without one when other processes have
// ended or replaced the round.
func (r rounds) run(ctx context.Context, x follow.Round) (*report.Migration, error) {
	o, err := r.Options.Round(x)
	if err != nil {
		return nil, err
	}
	o.Renews = true
	done, err := perform(ctx, o, r.out)
	if err != nil && ctx.Err() == nil {
		all, rerr := r.read(ctx)
		if last, ok := all.Last(); rerr == nil && ok && (last.Number > x.Number || last.Arrived != 0) {
			r.log.Info("other processes have ended the round", "round", x.Number, "error", err)
			return nil, nil
		}
	}
	if done == nil {
		return nil, plan.SnapshotGone(err)
	}
	of := x.Report()
	if done.Round = &of; err == nil && follow.Arrived(done.Summary, r.stops.Match) {
		err = r.arrive(ctx, x, done)
		of.Snapshot, of.Arrived = done.Summary.Snapshot, err == nil
	}
	return done, err
}

// arrive records that a round has arrived.
func (r rounds) arrive(ctx context.Context, x follow.Round, done *report.Migration) error {
	blobs, err := wiring.OpenRepository(ctx, r.Options)
	if err != nil {
		return err
	}
	identity, err := plan.SnapshotIdentity(ctx, blobs, done.Summary.Snapshot)
	if err != nil {
		return wiring.PlanError(err)
	}
	stopped, err := r.stopped(ctx, blobs, done.Summary.Snapshot)
	if err != nil {
		return wiring.PlanError(err)
	}
	var over follow.Over
	err = r.chain(ctx, func(c *follow.Chain) (err error) {
		if err := session.RoundsOf(c.Root).End(ctx, stopped, false); err != nil {
			return err
		}
		over, err = c.Arrive(ctx, x, identity, done.Summary)
		return err
	})
	if err != nil {
		return err
	}
	for _, x := range over.Records {
		if err := r.ForgetRound(ctx, x); err != nil {
			r.log.Warn("records of a former round stay: remove them with rfsctl cleanup", "round", x.Number, "session", x.Session, "error", err)
		}
	}
	for _, x := range over.Snapshots {
		if err := r.DeleteSnapshot(ctx, x, blobs); err != nil {
			r.log.Warn("the snapshot of a former round stays: delete it by hand", "round", x.Number, "snapshot", x.Snapshot, "error", err)
		}
	}
	return nil
}

// stopped returns the indices of a snapshot whose following has ended, including unchanged ones, which summaries lack.
func (r rounds) stopped(ctx context.Context, blobs repo.Repository, snapshot string) ([]string, error) {
	if len(r.stops) == 0 {
		return nil, nil
	}
	request := r.Request()
	request.SnapshotName = snapshot
	names, err := plan.Selected(ctx, blobs, request)
	return slices.DeleteFunc(names, func(name string) bool { return !r.stops.Match(name) }), err
}

// finish ends the following: the target's indices get back the settings that the rounds have changed. It blocks until no request of the
// last round can still arrive: with the former index.gc_deletes the target forgets deletions, which refuse such a request, after a minute.
func (r rounds) finish(ctx context.Context) error {
	r.Target.Log = r.log
	client, err := target.New(ctx, r.Target)
	if err != nil {
		return err
	}
	err = r.chain(ctx, func(c *follow.Chain) error {
		if err := c.Finish(ctx); err != nil {
			return err
		}
		if wait, err := c.Quiet(ctx); err != nil || wait > 0 {
			r.log.Info("the following has ended; settings are restored when no request of the last round can arrive any more", "in", wait.Round(time.Second))
			if err := errors.Join(err, c.Clock.Sleep(ctx, wait)); err != nil {
				return err
			}
		}
		ledger := rollback.NewLedger(client, c.Root, r.Session, r.log)
		t := &tuning.Tuner{API: client, Records: session.TuningsOf(c.Root), Mark: ledger.Mark, Log: r.log}
		restored, err := t.Restore(ctx)
		fmt.Fprintf(r.out, "the target no longer follows; settings of %d indices restored\n", len(restored))
		for _, x := range restored {
			if len(x.Left) > 0 || x.Reason != "" {
				fmt.Fprintf(r.out, "%s: left as they are: %s\n", x.Target, strings.TrimSpace(strings.Join(x.Left, ", ")+" "+x.Reason))
			}
		}
		return errors.Join(err, r.out.Result(finished{restored}))
	})
	if errors.Is(err, follow.ErrNotStarted) {
		err = fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	return errors.Join(err, client.Close())
}
