package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/worker"
)

// hand runs leases: one in a worker process, one after the other in a slot of a daemon.
type hand struct {
	*worker.Session
	in         *instruments
	blobs      *repo.Counting
	done       func() error
	unreadable bool // the snapshot could not be read
}

// openHand puts the parts of a worker together. The hand is given also beside an error, to say of it what it was.
func openHand(ctx context.Context, o options, log *slog.Logger, in *instruments) (*hand, error) {
	o.slots, o.s3.Pace = 1, &in.reads
	h := &hand{in: in, done: func() error { return nil }}
	blobs, err := openRepository(ctx, o)
	if err != nil {
		h.unreadable = true
		return h, fmt.Errorf("repository %s: %w", o.repoURI, err)
	}
	h.blobs = repo.NewCounting(blobs)
	h.blobs.LargeAlone(in.memory.Alone)
	if h.Session, h.done, err = wire(ctx, o, log, h.blobs, in); err != nil {
		h.done = func() error { return nil }
		return h, err
	}
	h.Plan = func(ctx context.Context, name string) (*worker.Plan, error) {
		request := o.request()
		request.SnapshotName, request.Sizes = name, true
		plan, err := worker.NewPlan(ctx, h.blobs, request)
		h.unreadable = err != nil && !errors.Is(err, fault.ErrConfig) && !errors.Is(err, fault.ErrUnavailable)
		return plan, err
	}
	return h, nil
}

func (h *hand) close() error { return h.done() }

// sample is what the hand did so far.
func (h *hand) sample() metrics.Sample { return h.in.sample(h.Session, h.blobs) }

// failedRecord is that of a worker that never began.
func failedRecord(err error) daemon.Record {
	return daemon.Record{Exit: codeOf(exit.Failed), Outcome: worker.Released.String(), Error: fault.Text(err)}
}

func (h *hand) failed(err error) daemon.Record {
	r := failedRecord(err)
	if h.unreadable {
		r.Exit = codeOf(exit.Snapshot)
	}
	return r
}

// work does one step of the session and gives its final record. With poll > 0 it looks itself
// whether the operator wants the fleet to run; nobody else tells it.
func (h *hand) work(ctx context.Context, poll time.Duration, started func(*cms.Lease)) (daemon.Record, error) {
	var lease *cms.Lease
	h.unreadable = false
	if poll > 0 {
		end, err := h.watchIntent(ctx, poll, &ctx)
		defer end()
		if err != nil {
			return daemon.Record{Exit: codeOf(exit.NotYet), Outcome: worker.Released.String(), Error: fault.Text(err), NextMs: poll.Milliseconds()}, err
		}
	}
	outcome, item, err := h.RunOne(ctx, func(l *cms.Lease) {
		lease = l
		started(l)
	})
	code := workerExit(ctx, outcome, h.unreadable, err)
	if outcome == worker.Lost && lease != nil && lease.UntilDeadline() <= 0 {
		code = exit.LeaseEnded // it was too late to hand off; what was recorded counts
	}
	sample := h.sample()
	r := daemon.Record{Exit: codeOf(code), Outcome: outcome.String(), Counts: item.Counts, Sample: &sample, Next: item.SuccessorIDs()}
	if lease != nil {
		r.Item = lease.Item.ID
	}
	var none *cms.NoneAvailable
	if errors.As(err, &none) {
		r.NextMs = h.untilFree(ctx, none)
	}
	if err != nil {
		r.Error = fault.Text(err)
	}
	log := h.Log
	if lease != nil {
		log = log.With("index", lease.ID.Index, "shard", lease.ID.Shard, "cursor", lease.ID.Cursor, "item", r.Item)
	}
	log.Info("worker ends", "outcome", r.Outcome, "repository_requests", sample.RepoRequests, "repository_bytes", sample.RepoBytes)
	return r, err
}

// untilFree is when work may be free, in ms from now, by the store's clock.
func (h *hand) untilFree(ctx context.Context, none *cms.NoneAvailable) int64 {
	now, _, err := h.Coordinator.Now(ctx)
	if err != nil || none.NextExpiry.IsZero() {
		return 0
	}
	return max(none.NextExpiry.Sub(now).Milliseconds(), 0)
}

// pausedError says that the operator does not want the fleet to run.
type pausedError struct{ intent cms.Intent }

func (e *pausedError) Error() string {
	return fmt.Sprintf("the operator (%s) wants no work: %s", e.intent.Who, e.intent.State)
}

// watchIntent asks the store now and then what the operator wants, and ends the context in *ctx
// when that is not to run. The error says that it is so already. end is to be called in any case.
func (h *hand) watchIntent(outer context.Context, every time.Duration, ctx *context.Context) (end func(), err error) {
	if i, err := h.Coordinator.Intent(outer); err == nil && i.State != cms.Run {
		return func() {}, &pausedError{i}
	}
	inner, cancel := context.WithCancelCause(outer)
	*ctx = inner
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-inner.Done():
				return
			case <-t.C:
			}
			if i, err := h.Coordinator.Intent(inner); err == nil && i.State != cms.Run {
				h.Log.Info("the operator wants no work: handing off", "intent", i.State, "who", i.Who)
				cancel(&pausedError{i})
			}
		}
	}()
	return func() { cancel(nil); <-ended }, nil
}
