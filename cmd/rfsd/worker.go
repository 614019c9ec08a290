package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/worker"
)

// Exit codes of `rfsd worker`; a parent believes 2 only together with the status record,
// because a crash of the runtime ends with 2 as well.
const (
	workerDone      = 0 // the item ended, also with refused documents, or was handed off on SIGTERM
	workerFailed    = 1 // usage, configuration, target, or the lease was lost
	workerTimeout   = 2 // the lease ended first: what was done is handed off
	workerNoneLeft  = 3
	workerNoneFree  = 4 // others hold what is left
	workerUnreadble = 5 // the snapshot cannot be read
)

const workerHelp = `Does one step of a phase before the documents (snapshot, cluster metadata, indices), or leases one work item and works on it,
   and exits. A fleet is many of these, on any number of machines, started again and again by a parent.

   Exit codes: 0 done (refused documents are counted, not an error; also after a clean SIGTERM); 2 the lease ended first: the
   rest was handed off, or is free for the next worker; 3 no work left; 4 none available now; 5 snapshot unreadable, or not made;
   1 anything else. A crash also exits with 2: believe 2 only together with the final record on --status-fd.`

func workerCommand() *cli.Command {
	return config.Raw[config.Worker](cli.Command{
		Name: "worker", Usage: "work on one lease of a migration, then exit", Description: workerHelp,
	}, func(ctx context.Context, call *config.Call) error {
		l, values, err := openLink(call)
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
func work1(ctx context.Context, o options, l *link) error {
	in := newInstruments(o)
	ctx, cancel := l.obey(ctx, in)
	defer cancel()
	o.leastExponent, o.tries, o.recordEvery, o.fleet = l.first.Exponent, l.first.Tries, l.first.Record, true
	h, err := openHand(ctx, o, l.logger(o), in)
	if err != nil {
		return l.finish(h.failed(err), err)
	}
	h.Prefer = l.first.Prefer
	l.begin(h.Holder, h.sample, h.Log)
	stop, watched := make(chan struct{}), make(chan struct{})
	close(watched)
	r, err := h.work(ctx, l.poll(), func(lease *cms.Lease) {
		l.leased(lease)
		watched = make(chan struct{})
		go func() { defer close(watched); endAtDeadline(lease, stop, l) }()
	})
	close(stop)
	<-watched
	err = errors.Join(err, h.close())
	return l.finish(r, err)
}

// endAtDeadline ends the process when its lease is over, even when the main flow hangs.
func endAtDeadline(l *cms.Lease, stop <-chan struct{}, link *link) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			if l.UntilDeadline() <= 0 {
				code := workerTimeout
				link.last(daemon.Record{Exit: &code, Outcome: "deadline", Item: l.Item.ID, Error: "the lease was over before the work had ended"})
				fmt.Fprintln(os.Stderr, "rfsd: the lease is over; the process ends")
				os.Exit(workerTimeout)
			}
		}
	}
}

// workerExit maps the end of a lease to an exit code.
func workerExit(ctx context.Context, outcome worker.Outcome, unreadable bool, err error) int {
	var none *cms.NoneAvailable
	var failed *worker.PhaseFailed
	switch {
	case errors.Is(err, cms.ErrAllDone):
		return workerNoneLeft
	case errors.As(err, &none), errors.Is(err, worker.ErrSnapshotRuns):
		return workerNoneFree
	case unreadable, errors.As(err, &failed) && failed.Phase == worker.PhaseSnapshot:
		return workerUnreadble
	case outcome == worker.Completed, outcome == worker.Failed, outcome == worker.Stepped:
		return workerDone
	case outcome == worker.HandedOff && ctx.Err() == nil:
		return workerTimeout
	case ctx.Err() != nil && (outcome == worker.HandedOff || outcome == worker.Released):
		return workerDone
	case outcome == worker.Released && err == nil:
		return workerTimeout
	}
	return workerFailed
}
