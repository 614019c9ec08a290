package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/link"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

func workerCommand() *cli.Command {
	return config.Raw[config.Worker](cli.Command{
		Name: "worker", Usage: "work on one lease of a migration, then exit", Description: help.Worker,
	}, func(ctx context.Context, call *config.Call) error {
		l, values, err := openControlPipe(call)
		if err != nil {
			return err
		}
		if err := config.Decode(values, &config.FleetKey{}); err != nil {
			return l.finish(failedRecord(err), err)
		}
		if values.Text("repo-uri") == "" { // started manually, with target and session only
			if values, err = joinSoon(ctx, values); err != nil {
				return l.finish(failedRecord(err), err)
			}
		}
		o, err := decodeMigrate(values)
		if err == nil && l.First.Round != nil {
			o, err = ofRound(o, l.First.Round)
		}
		if err != nil {
			return l.finish(failedRecord(err), err)
		}
		return work1(ctx, o, l)
	})
}

// decodeMigrate makes the options of a migration of given settings.
func decodeMigrate(values config.Values) (wiring.Options, error) {
	var m config.Migrate
	if err := config.Decode(values, &m); err != nil {
		return wiring.Options{}, err
	}
	return wiring.ForMigration(version, m)
}

// joinSoon takes over the fleet's settings as joinFleet does, and fails when the store does not answer: the process that
// starts workers starts another.
func joinSoon(ctx context.Context, values config.Values) (config.Values, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*joinPatience)
	defer cancel()
	return joinFleet(ctx, values, config.Settings(config.Migrate{}))
}

// work1 runs one lease and turns its end into an exit code and a status record.
func work1(ctx context.Context, o wiring.Options, l *workerLink) error {
	in := wiring.NewResources(o)
	ctx, cancel := l.handle(ctx, in)
	defer cancel()
	o = o.OfWorker(l.First)
	log := l.logger(o)
	ctx, t, err := o.Observe(ctx, "worker", in.Daemon, log)
	if err != nil {
		return l.finish(failedRecord(err), err)
	}
	defer t.Stop()
	h, err := openWorkerSession(ctx, o, log, in)
	if err != nil {
		return l.finish(h.failed(err), err)
	}
	h.Prefer = l.First.Prefer
	if l.Attached() {
		h.Moved = link.Moved(l.Send)
	}
	l.Begin(h.Holder, h.sample, h.Log)
	var watch sync.WaitGroup
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r, err := h.work(ctx, l.poll(), func(lease *cms.Lease) {
		l.Send(link.Leased(lease))
		watch.Go(func() { endAtDeadline(watched, lease, l, h.Log) })
	})
	stop()
	watch.Wait()
	err = errors.Join(err, h.close())
	return l.finish(r, err)
}

// endAtDeadline ends the process when its lease is over before ctx is, even when the main flow hangs.
func endAtDeadline(ctx context.Context, l *cms.Lease, pipe *workerLink, log *slog.Logger) {
	if l.Wait(ctx) != nil {
		return
	}
	pipe.SendFinal(daemon.Record{Exit: codeOf(exit.LeaseEnded), Outcome: "deadline", Item: l.Item.ID, Error: "the lease was over before the work had ended"})
	log.ErrorContext(ctx, "process ends", "reason", "the lease was over before the work had ended", "index", l.ID.Index, "shard", l.ID.Shard)
	os.Exit(int(exit.LeaseEnded))
}

// codeOf returns the code as a worker's record carries it.
func codeOf(c exit.Code) *int {
	code := int(c)
	return &code
}

// workerExit maps the end of a lease to an exit code.
func workerExit(ctx context.Context, outcome engine.Outcome, unreadable bool, err error) exit.Code {
	var none *cms.NoneAvailable
	var failed *phase.PhaseFailed
	switch {
	case errors.Is(err, cms.ErrAllDone):
		return exit.NoneLeft
	case errors.As(err, &none), errors.Is(err, phase.ErrSnapshotRuns):
		return exit.NotYet
	case unreadable, errors.As(err, &failed) && failed.Phase == phase.PhaseSnapshot:
		return exit.Snapshot
	case outcome == engine.Completed, outcome == engine.Failed, outcome == engine.Stepped:
		return exit.OK
	case outcome == engine.HandedOff && ctx.Err() == nil:
		return exit.LeaseEnded
	case ctx.Err() != nil && (outcome == engine.HandedOff || outcome == engine.Released):
		return exit.OK
	case outcome == engine.Released && err == nil:
		return exit.LeaseEnded
	}
	return exit.Failed
}

// pollIntent is the interval in which a worker without a daemon reads what the operator wants.
const pollIntent = 15 * time.Second

// workerLink connects a worker to its daemon, which may change what bounds the work and the level of the log.
type workerLink struct {
	*link.Pipe
	level slog.LevelVar
}

// openControlPipe opens the pipes. It returns the settings with those that come through them.
func openControlPipe(call *config.Call) (*workerLink, config.Values, error) {
	values := call.Given()
	var c config.Link
	if err := config.Decode(values, &c); err != nil {
		return nil, nil, err
	}
	pipe, err := link.Open(c.StatusFD, c.ParentFD, c.MetricsFile)
	if err != nil {
		return nil, nil, config.Usage("--parent-fd: %w", err)
	}
	for name := range pipe.First.Options {
		if _, known := config.Find(call.Settings, name); !known {
			return nil, nil, config.Usage("--parent-fd: the option --%s does not exist", name)
		}
	}
	return &workerLink{Pipe: pipe}, config.Values(pipe.First.Options).Over(values), nil
}

// logger logs as the run does; under a daemon, which keeps the lines, always JSON that names the slot, of a level that may change.
func (l *workerLink) logger(o wiring.Options) *slog.Logger {
	if !l.Attached() {
		log, _ := report.Log(o.Log)
		return log
	}
	l.level.Set(o.Log.Level)
	return slog.New(slog.NewJSONHandler(terminal.NewWriter(os.Stderr), report.LogOptions(&l.level))).With("slot", l.First.Slot, "pid", os.Getpid())
}

// handle follows the commands of the daemon; the context ends when the daemon has ended.
func (l *workerLink) handle(ctx context.Context, in *wiring.Resources) (context.Context, context.CancelFunc) {
	if l.Attached() {
		in.Daemon, in.Led = l.First.Holder, true
	}
	return l.Follow(ctx, func(command daemon.WorkerCommand) {
		in.Apply(command)
		if command.Rate != nil {
			l.Send(daemon.Record{Rate: in.RateCommand}) // the rate that is followed
		}
		if command.ReadRate != nil {
			l.Send(daemon.Record{ReadRate: in.ReadCommand})
		}
		var level slog.Level
		if command.LogLevel != "" && level.UnmarshalText([]byte(command.LogLevel)) == nil {
			l.level.Set(level)
		}
	})
}

// poll returns the interval in which the worker reads what the operator wants; 0: its daemon does.
func (l *workerLink) poll() time.Duration {
	if l.Attached() {
		return 0
	}
	return pollIntent
}

// finish sends the final record and returns the end of the command. A daemon reports the error, which the record holds.
func (l *workerLink) finish(r daemon.Record, err error) error {
	noteError(&r, err)
	sent := l.Finish(r)
	if l.Attached() && sent == nil {
		err = nil
	}
	return exit.With(exit.Code(*r.Exit), errors.Join(err, sent))
}
