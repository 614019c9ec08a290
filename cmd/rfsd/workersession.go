package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// workerSession runs leases: one in a worker process, or leases in sequence in a slot of a daemon.
type workerSession struct {
	*phase.Session
	in         *wiring.Resources
	blobs      *repo.Counting
	done       func() error
	unreadable bool // the snapshot could not be read
}

// openWorkerSession puts the parts of a worker together. With an error it returns the session, too, whose failed describes the error.
func openWorkerSession(ctx context.Context, o wiring.Options, log *slog.Logger, in *wiring.Resources) (*workerSession, error) {
	o = o.OfSlot(in)
	h := &workerSession{in: in, done: func() error { return nil }}
	var err error
	if h.blobs, err = wiring.OpenCounted(ctx, o, in.Memory); err != nil {
		code, _ := exit.Of(err)
		h.unreadable = code == exit.Snapshot
		return h, err
	}
	if h.Session, h.done, err = wiring.OpenMigration(ctx, o, log, h.blobs, in); err != nil {
		h.done = func() error { return nil }
		return h, err
	}
	h.Plan = func(ctx context.Context, name string) (*plan.Plan, error) {
		request := o.Request()
		request.SnapshotName, request.Sizes, request.Manifests = name, true, &in.Manifests
		plan, err := plan.New(ctx, h.blobs, request)
		h.unreadable = err != nil && !errors.Is(err, fault.ErrConfig) && !errors.Is(err, fault.ErrUnavailable)
		return plan, err
	}
	return h, nil
}

func (h *workerSession) close() error { return h.done() }

// sample returns the measurements of the session so far.
func (h *workerSession) sample() metrics.Sample { return h.in.Sample(h.Session, h.blobs) }

// noteError notes why a worker ends.
func noteError(r *daemon.Record, err error) {
	if err != nil && r.Error == "" {
		r.Error = fault.Text(err)
	}
	r.Gone = r.Gone || gone(err)
}

// failedRecord returns the record of a worker that failed before its first step.
func failedRecord(err error) daemon.Record {
	return daemon.Record{Exit: codeOf(exit.Failed), Outcome: engine.Released.String(), Error: fault.Text(err), Gone: gone(err)}
}

// gone reports whether no worker of the session can work any more: its state was deleted, or what it created was removed.
func gone(err error) bool {
	return errors.Is(err, cms.ErrStoreGone) || errors.Is(err, session.ErrUndone)
}

func (h *workerSession) failed(err error) daemon.Record {
	r := failedRecord(err)
	if h.unreadable {
		r.Exit = codeOf(exit.Snapshot)
	}
	return r
}

// work does one step of the session and returns its final record. With poll > 0 it asks at that interval whether the
// operator wants the fleet to run, which no daemon reports to it.
func (h *workerSession) work(ctx context.Context, poll time.Duration, started func(*cms.Lease)) (daemon.Record, error) {
	var lease *cms.Lease
	h.unreadable = false
	if poll > 0 {
		watched, stop, err := session.OrdersOf(h.Coordinator).Watch(ctx, poll, h.in.Follow, h.Log)
		defer stop()
		if err != nil {
			return daemon.Record{Exit: codeOf(exit.NotYet), Outcome: engine.Released.String(), Error: fault.Text(err), NextMs: poll.Milliseconds()}, err
		}
		ctx = watched
	}
	outcome, item, err := h.RunOne(ctx, func(l *cms.Lease) {
		lease = l
		started(l)
	})
	code := workerExit(ctx, outcome, h.unreadable, err)
	if outcome == engine.Lost && lease != nil && lease.UntilDeadline() <= 0 {
		code = exit.LeaseEnded // it was too late to hand off; the recorded progress counts
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
		log = log.With("index", lease.ID.Index, "shard", lease.ID.Shard, "cursor", lease.ID.Cursor)
	}
	log.Debug("worker ends", "outcome", r.Outcome, "repository_requests", sample.RepoRequests, "repository_bytes", sample.RepoBytes)
	return r, err
}

// untilFree returns the time until work may be free, in ms, by the store's clock; 0: unknown.
func (h *workerSession) untilFree(ctx context.Context, none *cms.NoneAvailable) int64 {
	now, _, err := h.Coordinator.Leases().Now(ctx)
	if err != nil || none.NextExpiry.IsZero() {
		return 0
	}
	return max(none.NextExpiry.Sub(now).Milliseconds(), 0)
}
