package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

const workerHelp = `Performs one step of a phase before the documents (snapshot, cluster metadata, indices), or
leases one work item and works on it, and exits. A fleet consists of many of these, on any number
of machines, restarted by a parent process.

It also exits with 0 when documents were rejected (they are counted) and after a clean SIGTERM. A
crash exits with 2, too: rely on 2 only together with the final record on --status-fd.`

func workerCommand() *cli.Command {
	return config.Raw[config.Worker](cli.Command{
		Name: "worker", Usage: "work on one lease of a migration, then exit", Description: workerHelp,
	}, func(ctx context.Context, call *config.Call) error {
		l, values, err := openControlPipe(call)
		if err != nil {
			return err
		}
		if err := config.Decode(values, &config.FleetKey{}); err != nil {
			return l.finish(failedRecord(err), err)
		}
		if values.Text("repo-uri") == "" { // one that is started by hand, with target and session only
			if values, err = joinSoon(ctx, values); err != nil {
				return l.finish(failedRecord(err), err)
			}
		}
		o, err := decodeMigrate(values)
		if err != nil {
			return l.finish(failedRecord(err), err)
		}
		return work1(ctx, o, l)
	})
}

// decodeMigrate makes the options of a migration of given settings.
func decodeMigrate(values config.Values) (options, error) {
	var m config.Migrate
	if err := config.Decode(values, &m); err != nil {
		return options{}, err
	}
	return newOptions(m)
}

// joinSoon takes over the fleet's settings as joinFleet does, and fails when the store does not answer: the process that
// starts workers starts another.
func joinSoon(ctx context.Context, values config.Values) (config.Values, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*joinPatience)
	defer cancel()
	return joinFleet(ctx, values, config.Settings(config.Migrate{}))
}

// work1 runs one lease and turns its end into an exit code and a status record.
func work1(ctx context.Context, o options, l *controlPipe) error {
	in := newResources(o)
	ctx, cancel := l.handle(ctx, in)
	defer cancel()
	o.minExponent, o.tries, o.recordEvery, o.fleet = l.first.Exponent, l.first.Tries, l.first.Record, true
	h, err := openWorkerSession(ctx, o, l.logger(o), in)
	if err != nil {
		return l.finish(h.failed(err), err)
	}
	h.Prefer = l.first.Prefer
	if l.parent != nil {
		h.Moved = movedTo(l.send)
	}
	l.begin(h.Holder, h.sample, h.Log)
	var watch sync.WaitGroup
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r, err := h.work(ctx, l.poll(), func(lease *cms.Lease) {
		l.leased(lease)
		watch.Go(func() { endAtDeadline(watched, lease, l) })
	})
	stop()
	watch.Wait()
	err = errors.Join(err, h.close())
	return l.finish(r, err)
}

// endAtDeadline ends the process when its lease is over before ctx is, even when the main flow hangs.
func endAtDeadline(ctx context.Context, l *cms.Lease, pipe *controlPipe) {
	if l.Wait(ctx) != nil {
		return
	}
	pipe.sendFinal(daemon.Record{Exit: codeOf(exit.LeaseEnded), Outcome: "deadline", Item: l.Item.ID, Error: "the lease was over before the work had ended"})
	fmt.Fprintln(os.Stderr, "rfsd: the lease is over; the process ends")
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
	var failed *worker.PhaseFailed
	switch {
	case errors.Is(err, cms.ErrAllDone):
		return exit.NoneLeft
	case errors.As(err, &none), errors.Is(err, worker.ErrSnapshotRuns):
		return exit.NotYet
	case unreadable, errors.As(err, &failed) && failed.Phase == worker.PhaseSnapshot:
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
