package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
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

const workerHelp = `Leases one work item, works on it, and exits. A fleet is many of these, on any number of machines, started again
   and again by a parent. The first of a session seeds the work and creates missing target indices, the others wait for that.

   Exit codes: 0 done (refused documents are counted, not an error; also after a clean SIGTERM); 2 the lease ended first: the
   rest was handed off, or is free for the next worker; 3 no work left; 4 none available now; 5 snapshot unreadable; 1 anything else. A crash also
   exits with 2: believe 2 only together with the final record on --status-fd.`

func workerCommand() *cli.Command {
	var flags []cli.Flag
	for _, group := range [][]cli.Flag{sourceFlags(), destinationFlags(), selectionFlags(), workFlags(), coordinationFlags()} {
		flags = append(flags, group...)
	}
	flags = append(flags, num(work, "status-fd", 0, "inherited file descriptor that gets one JSON record when the process ends"))
	return &cli.Command{
		Name: "worker", Usage: "work on one lease of a migration, then exit", Description: workerHelp, Flags: flags,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("unexpected argument %q: every option begins with --", c.Args().First())
			}
			o, err := parseOptions(c)
			if err != nil {
				return err
			}
			return work1(c.Context, o, newStatus(c.Int("status-fd")))
		},
	}
}

// status is the final record of a worker, written once.
type status struct {
	once sync.Once
	out  *os.File
}

type statusRecord struct {
	Exit    int        `json:"exit"`
	Outcome string     `json:"outcome,omitempty"`
	Item    string     `json:"item,omitempty"`
	Counts  cms.Counts `json:"counts"`
	Error   string     `json:"error,omitempty"`
}

func newStatus(fd int) *status {
	if fd < 3 {
		return &status{}
	}
	return &status{out: os.NewFile(uintptr(fd), "status")}
}

func (s *status) write(r statusRecord) {
	s.once.Do(func() {
		if s.out == nil {
			return
		}
		if err := json.NewEncoder(s.out).Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "rfsd: status record:", err)
		}
		s.out.Close()
	})
}

// work1 runs one lease and turns its end into an exit code and a status record.
func work1(ctx context.Context, o options, st *status) error {
	o.slots = 1
	log := newLogger(o)
	r := statusRecord{Exit: workerFailed}
	blobs, err := repo.Open(ctx, o.repoURI, o.s3)
	if err != nil {
		r.Exit, r.Error = workerUnreadble, fault.Text(err)
		st.write(r)
		return &codedError{workerUnreadble, fmt.Errorf("repository %s: %w", o.repoURI, err)}
	}
	counted := repo.NewCounting(blobs)
	s, done, err := wire(ctx, o, log, counted)
	if err != nil {
		return finishWorker(st, r, workerFailed, err)
	}
	unreadable := false
	s.Plan = func(ctx context.Context, name string) (*worker.Plan, error) {
		request := o.request()
		request.SnapshotName = name
		plan, err := worker.NewPlan(ctx, counted, request)
		unreadable = err != nil && !errors.Is(err, fault.ErrConfig) && !errors.Is(err, fault.ErrUnavailable)
		return plan, err
	}
	stop := make(chan struct{})
	watched := make(chan struct{})
	close(watched)
	var lease *cms.Lease
	outcome, item, err := s.RunOne(ctx, func(l *cms.Lease) {
		lease, r.Item = l, l.Item.ID
		watched = make(chan struct{})
		go func() { defer close(watched); endAtDeadline(l, stop, st) }()
	})
	close(stop)
	<-watched
	r.Outcome, r.Counts = outcome.String(), item.Counts
	err = errors.Join(err, done())
	requests, bytes := counted.Totals()
	log.Info("worker ends", "item", r.Item, "outcome", r.Outcome, "repository_requests", requests, "repository_bytes", bytes)
	code := workerExit(ctx, outcome, unreadable, err)
	if outcome == worker.Lost && lease != nil && lease.UntilDeadline() <= 0 {
		code = workerTimeout // it was too late to hand off; what was recorded counts
	}
	return finishWorker(st, r, code, err)
}

// endAtDeadline ends the process when its lease is over, even when the main flow hangs.
func endAtDeadline(l *cms.Lease, stop <-chan struct{}, st *status) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			if l.UntilDeadline() <= 0 {
				st.write(statusRecord{Exit: workerTimeout, Outcome: "deadline", Item: l.Item.ID, Error: "the lease was over before the work had ended"})
				fmt.Fprintln(os.Stderr, "rfsd: the lease is over; the process ends")
				os.Exit(workerTimeout)
			}
		}
	}
}

// workerExit maps the end of a lease to an exit code.
func workerExit(ctx context.Context, outcome worker.Outcome, unreadable bool, err error) int {
	var none *cms.NoneAvailable
	switch {
	case errors.Is(err, cms.ErrAllDone):
		return workerNoneLeft
	case errors.As(err, &none):
		return workerNoneFree
	case unreadable:
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

func finishWorker(st *status, r statusRecord, code int, err error) error {
	r.Exit = code
	if err != nil {
		r.Error = fault.Text(err)
	}
	st.write(r)
	if code == workerDone && err == nil {
		return nil
	}
	return &codedError{code, err}
}
