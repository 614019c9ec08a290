package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/base/tracing"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// drainTimeout bounds the wait for requests in flight when a lease is handed off.
// The next holder repeats the requests without an answer.
const drainTimeout = 12 * time.Second

// Outcome is the way in which a lease ended.
type Outcome int

// The ways in which a lease ends.
const (
	Completed Outcome = iota // everything from the cursor to the end of the shard arrived
	HandedOff                // a successor item holds the rest
	Released                 // nothing was done; the item is free again
	Failed                   // the item cannot be migrated and records the reason
	Lost                     // the lease was no longer ours, or could not be released
	Stepped                  // no lease of an item: a step of a phase before the documents
)

func (o Outcome) String() string {
	return [...]string{"completed", "handed off", "released", "failed", "lost", "phase"}[o]
}

// Runner runs leases: one piece of code for slots of `rfsd migrate` and for worker processes.
type Runner struct {
	Destination Destination
	Failed      bulk.Recorder
	Bulk        bulk.Options // limits; what belongs to one item is filled in
	Meter       *Meter
	Clock       timing.Clock
	Log         *slog.Logger
	// RecordEvery is the interval at which a running item's watermark is recorded; 0 means 10 s.
	RecordEvery time.Duration
	// Endless states that items have no end, as in a stream: a lease that is over leaves no successor. The item is given
	// back with its watermark, and leased again.
	Endless bool
}

func (r *Runner) recordEvery() time.Duration {
	if r.RecordEvery > 0 {
		return r.RecordEvery
	}
	return 10 * time.Second
}

// guardEvery is the interval at which a running item verifies that its target is still the same: one of many workers finds out soon.
func (r *Runner) guardEvery() time.Duration { return max(guardInterval, 3*r.recordEvery()) }

// Run works on a lease until it ends. When ctx ends, the acknowledged part is handed
// off and the rest is left to others. The error states why the lease did not end in
// Completed or HandedOff; the item itself is already dealt with.
// guard reports whether the target is still the intended one, or was at most maxAge ago; it is asked before
// the first document, now and then, and before the item is completed.
func (r *Runner) Run(ctx context.Context, lease *cms.Lease, from Source, guard func(ctx context.Context, maxAge time.Duration) error) (Outcome, error) {
	ctx, span := tracing.Start(ctx, "lease", attribute.String("rfsd.index", lease.ID.Index), attribute.Int("rfsd.shard", lease.ID.Shard),
		attribute.Int64("rfsd.cursor", lease.ID.Cursor), attribute.Int("rfsd.attempt", lease.Item.Attempts))
	defer span.End()
	j := &job{
		runner: r, lease: lease, id: lease.ID, begin: lease.Start(), from: from, guard: guard, acquired: r.Clock.Read().Mono,
		log: r.Log.With("index", lease.ID.Index, "shard", lease.ID.Shard, "cursor", lease.ID.Cursor),
	}
	defer j.close()
	r.Meter.start(j)
	defer r.Meter.finish(j)
	j.log.Debug("lease acquired", "begin", j.begin, "length", lease.Length, "attempt", lease.Item.Attempts)

	life := j.live(ctx)
	defer life.close()
	life.report(j)
	err := j.run(life.work, life.stopping)
	j.copied = r.Clock.Read().Mono
	work, err := life.after(err)
	outcome, err := j.finish(ctx, work, err)
	if n := j.kept(); n > 0 {
		j.log.Info("the target has documents of the same ids, which were kept", "documents", n)
	}
	level := slog.LevelDebug
	if outcome == Failed {
		level = slog.LevelError
	}
	j.trace(span, outcome, err)
	j.log.Log(ctx, level, "lease ended", "outcome", outcome.String(), "error", errorText(err))
	return outcome, err
}

// trace records how the lease ended, and what it settled.
func (j *job) trace(span trace.Span, outcome Outcome, err error) {
	if !span.IsRecording() {
		return
	}
	var did cms.Counts
	if j.loader != nil {
		_, did = j.settled()
	}
	span.SetAttributes(attribute.String("rfsd.end", outcome.String()), attribute.Int64("rfsd.documents", did.Indexed),
		attribute.Int64("rfsd.documents_failed", did.Failed), attribute.Int64("rfsd.bytes", did.Bytes))
	if err != nil && (outcome == Failed || outcome == Lost) {
		span.SetStatus(codes.Error, fault.Text(err))
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// finish brings the item into the state that matches how the copying ended.
func (j *job) finish(ctx, work context.Context, err error) (Outcome, error) {
	switch {
	case err == nil:
		return j.complete(work)
	case errors.Is(err, errStop) && work.Err() == nil:
		return j.handOff(work, j.returned(ctx))
	case errors.Is(err, fault.ErrLeaseLost), work.Err() != nil:
		return j.tooLate(ctx, err)
	case errors.Is(err, errHandoffTimeout):
		return j.giveBack(work, cms.CauseDrain, err)
	case errors.Is(err, fault.ErrCorrupt), errors.Is(err, fault.ErrUnsupported),
		errors.Is(err, snapshot.ErrShardMissing), errors.Is(err, ErrTargetReplaced):
		return j.fail(work, err)
	case errors.Is(err, bulk.ErrTooManyRefusals), errors.Is(err, bulk.ErrIndexBlocked):
		if gerr := j.guard(work, 0); errors.Is(gerr, ErrTargetReplaced) { // gone, not only blocked
			return j.fail(work, gerr)
		}
		return j.giveBack(work, cms.CausePause, err)
	case errors.Is(err, objects.ErrRollover), errors.Is(err, fault.ErrConfig): // for the user to change
		return j.giveBack(work, cms.CausePause, err)
	case errors.Is(err, fault.ErrUnavailable):
		return j.giveBack(work, cms.CauseOutage, err)
	default:
		return j.giveBack(work, cms.CauseNone, err)
	}
}

// returned decides how a lease is released that was stopped without progress: by an operator or signal, or
// by its trigger.
func (j *job) returned(ctx context.Context) cms.Return {
	if ctx.Err() != nil {
		return cms.Return{Cause: cms.CauseDrain}
	}
	return j.unmoved()
}

// mayBeKnown returns how old the last look at the target may be when an item ends. Small items that are leased in groups
// share one; the end of the documents asks anew for all of them.
func (j *job) mayBeKnown() time.Duration {
	if j.lease.Grouped() {
		return KnownFor
	}
	return 0
}

// lastLooks limits the requests to the target before an item is released with all its documents sent, lookAgain the time
// between: a busy target refuses such requests, too (429).
const (
	lastLooks = 6
	lookAgain = time.Second
)

// lookBeforeEnd asks whether the target is still the same, again while it cannot answer and the lease has time left.
func (j *job) lookBeforeEnd(ctx context.Context) error {
	looks := retry.Policy{Tries: lastLooks, First: lookAgain, Sleep: j.runner.Clock.Sleep,
		Left: func() time.Duration { return j.lease.UntilDeadline() - j.lease.HandoffTime() }}
	return looks.Do(ctx, func(ctx context.Context) error { return j.guard(ctx, j.mayBeKnown()) })
}

func (j *job) complete(ctx context.Context) (Outcome, error) {
	watermark, counts := j.settled()
	if end := j.source.End(); end == Unknown || watermark < end { // a document was taken for done that is not
		return j.giveBack(ctx, cms.CauseNone, fmt.Errorf("watermark %d of %d after the last document", watermark, end))
	}
	if err := j.lookBeforeEnd(ctx); err != nil {
		return j.finish(ctx, ctx, err)
	}
	if err := j.out.Commit(ctx); err != nil {
		return j.giveBack(ctx, cms.CauseNone, err)
	}
	did, err := j.work(watermark, counts)
	if err != nil {
		return j.giveBack(ctx, cms.CauseNone, err)
	}
	if err := j.lease.Complete(ctx, did); err != nil {
		return j.unanswered(ctx, Completed, fmt.Errorf("complete %s: %w", j.id.Name(), err))
	}
	return Completed, nil
}

// handOff leaves the rest of the shard to a successor item. Without progress the lease is released as r states; without
// the time for it, with the progress recorded.
func (j *job) handOff(ctx context.Context, r cms.Return) (Outcome, error) {
	if j.loader == nil { // stopped before the first document
		return j.giveBackAs(ctx, r, nil)
	}
	// What does not answer in half of the time is given up; the other half is for the hand-off.
	left := j.lease.UntilDeadline()
	drain, cancel := context.WithTimeout(ctx, min(drainTimeout, left/2, left-j.lease.HandoffTime()))
	j.loader.Drain(drain)
	cancel()
	watermark, counts := j.settled()
	switch {
	case j.runner.Endless:
		return j.giveBackAs(ctx, cms.Return{Cause: cms.CauseDrain}, nil)
	case j.source.End() != Unknown && watermark >= j.source.End():
		return j.complete(ctx)
	case watermark <= j.begin:
		return j.giveBackAs(ctx, r, nil)
	}
	if j.lease.UntilDeadline() < j.lease.HandoffTime() {
		return j.giveBackAs(ctx, cms.Return{Cause: cms.CauseOutage, Longer: true}, nil)
	}
	if err := j.guard(ctx, j.mayBeKnown()); errors.Is(err, ErrTargetReplaced) {
		return j.fail(ctx, err)
	} // without an answer the work is kept: the end of the chain asks again
	if err := j.out.Commit(ctx); err != nil {
		return j.giveBack(ctx, cms.CauseOutage, err)
	}
	did, err := j.work(watermark, counts)
	if err != nil {
		return j.giveBack(ctx, cms.CauseNone, err)
	}
	if err := j.lease.Handoff(ctx, watermark, did); err != nil {
		return j.unanswered(ctx, HandedOff, fmt.Errorf("hand off %s: %w", j.id.Name(), err))
	}
	return HandedOff, nil
}

// giveBack releases the item with its error.
func (j *job) giveBack(ctx context.Context, cause cms.Cause, why error) (Outcome, error) {
	return j.giveBackAs(ctx, cms.Return{Cause: cause}, why)
}

// giveBackAs releases the item. The next holder starts at the watermark and repeats the documents beyond it.
func (j *job) giveBackAs(ctx context.Context, r cms.Return, why error) (Outcome, error) {
	j.abort()
	if j.loader != nil && j.runner.Destination.Durable() && r.Cause != cms.CausePause { // refused documents may be wanted again
		if watermark, counts := j.settled(); watermark > j.begin {
			did, err := j.work(watermark, counts)
			if err != nil {
				return Lost, errors.Join(why, err)
			}
			r.Watermark, r.Work = watermark, did
		}
	}
	if err := j.lease.GiveBack(ctx, r); err != nil {
		return Lost, errors.Join(why, fmt.Errorf("release %s: %w", j.id.Name(), err))
	}
	return Released, why
}

// tooLate ends a lease whose deadline is over, or that another process holds. Nothing is sent any more; until the lease itself
// ends the item may still be freed for the next holder.
func (j *job) tooLate(ctx context.Context, why error) (Outcome, error) {
	why = fmt.Errorf("%s: %w", j.id.Name(), why)
	if j.lease.Lost() != nil {
		j.abort()
		return Lost, why
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(FinalReadTimeout, j.lease.UntilEnd()))
	defer cancel()
	if _, err := j.giveBackAs(late, cms.Return{Cause: cms.CauseOutage, Longer: true}, nil); err != nil {
		why = errors.Join(why, err)
	}
	return Lost, why
}

// unanswered decides what became of a lease when the last step had no good answer: the step may have
// been done all the same. If it was not, the item is released.
func (j *job) unanswered(ctx context.Context, meant Outcome, why error) (Outcome, error) {
	if j.lease.Lost() != nil {
		return Lost, why
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), FinalReadTimeout)
	defer cancel()
	if j.lease.Over(late) {
		return meant, nil
	}
	return j.giveBackAs(late, cms.Return{Cause: cms.CauseOutage, Longer: true}, why)
}

// fail marks the item as impossible to migrate.
func (j *job) fail(ctx context.Context, why error) (Outcome, error) {
	if j.loader != nil {
		drain, cancel := context.WithTimeout(ctx, drainTimeout)
		if errors.Is(why, fault.ErrCorrupt) { // documents before the damage arrive
			if err := j.loader.Flush(drain); err != nil {
				j.log.Warn("documents before the damage did not all arrive", "error", err)
			}
		}
		j.loader.Drain(drain)
		cancel()
	}
	j.abort()
	if err := j.lease.Fail(ctx, why.Error(), j.recordLast(ctx)); err != nil {
		return Lost, errors.Join(why, fmt.Errorf("fail %s: %w", j.id.Name(), err))
	}
	return Failed, why
}

// recordLast stores what arrived before an item is given up, so that it is counted. Without an answer the counts are those
// of the last record. It returns the checks of the item, with the number of documents that the shard holds.
func (j *job) recordLast(ctx context.Context) json.RawMessage {
	var checks json.RawMessage
	if j.loader != nil && j.runner.Destination.Durable() {
		if watermark, counts := j.settled(); watermark > j.begin {
			did, err := j.work(watermark, counts)
			if err == nil {
				err = j.lease.Progress(ctx, watermark, did)
			}
			if err == nil {
				checks = did.Checks
			} else {
				j.log.Warn("progress of an item that is given up was not recorded", "error", err)
			}
		}
	}
	failing, ok := j.from.(FailingSource)
	if !ok {
		return nil
	}
	checks, err := failing.FailedChecks(ctx, j.id, checks)
	if err != nil {
		j.log.Warn("the number of documents of the shard is unknown", "error", err)
	}
	return checks
}

func (j *job) abort() {
	if j.loader != nil {
		j.loader.Abort()
	}
	if j.out != nil {
		if err := j.out.Abort(); err != nil {
			j.log.Warn("abort output", "error", err)
		}
	}
}

// ErrTargetReplaced means that a target index is not the one this migration started with. What was
// sent to the former one is gone, so nothing may be called complete.
var ErrTargetReplaced = fmt.Errorf("target_index_replaced: %w", fault.ErrRejected)

// FinalReadTimeout bounds the reading of the item after its lease has ended.
const FinalReadTimeout = 3 * time.Second

// KnownFor is the time for which the leases of a process share the findings of one about an index. The end of the documents
// always asks anew.
const KnownFor = 30 * time.Second
