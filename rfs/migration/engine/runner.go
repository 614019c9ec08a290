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

// drainTimeout is the maximum wait for requests in flight when a lease is handed off. The next holder repeats unanswered requests.
const drainTimeout = 12 * time.Second

// Outcome is the result of a lease.
type Outcome int

// Outcomes of a lease.
const (
	Completed Outcome = iota // everything from the cursor to the end of the item arrived
	HandedOff                // a successor item holds the rest
	Released                 // no successor; the item is free again
	Failed                   // the item cannot be migrated; the reason is recorded
	Lost                     // the lease expired or was taken over, or could not be released
	Stepped                  // not an item: a step of a phase before the documents
)

func (o Outcome) String() string {
	return [...]string{"completed", "handed off", "released", "failed", "lost", "phase"}[o]
}

// Runner runs leases, for the slots of `rfsd migrate` and for worker processes.
type Runner struct {
	Destination Destination
	Failed      bulk.Recorder
	Bulk        bulk.Options // limits; Run sets the fields of one item
	Meter       *Meter
	Clock       timing.Clock
	Log         *slog.Logger
	// RecordEvery is the interval at which a running item's watermark is recorded; 0 means 10 s.
	RecordEvery time.Duration
	// Endless states that items have no end, as in a stream. An ending lease then creates no successor: the item is released with its
	// watermark and leased again.
	Endless bool
}

func (r *Runner) recordEvery() time.Duration {
	if r.RecordEvery > 0 {
		return r.RecordEvery
	}
	return 10 * time.Second
}

// guardEvery is the interval at which a running item verifies that its target is still the same. In a large fleet it is longer, since the
// workers together notice a replacement early.
func (r *Runner) guardEvery() time.Duration { return max(guardInterval, 3*r.recordEvery()) }

// Run works on a lease until it ends. When ctx ends, Run hands off the rest of the item. The error is the reason for any outcome except
// Completed and HandedOff; the item has been released or failed accordingly. guard reports whether the target is still the intended one,
// from a check at most maxAge old; Run calls it before the first document, at intervals, and before it completes the item.
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

// trace adds the outcome and the counts of the lease to its span.
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

// finish ends the lease according to how the copying ended.
func (j *job) finish(ctx, work context.Context, err error) (Outcome, error) {
	switch {
	case err == nil:
		return j.complete(work)
	case errors.Is(err, errStop) && work.Err() == nil:
		return j.handOff(work, j.returned(ctx))
	case errors.Is(err, fault.ErrLeaseLost), work.Err() != nil:
		return j.tooLate(ctx, err)
	case errors.Is(err, errHandoffTimeout):
		return j.release(work, cms.CauseDrain, err)
	case errors.Is(err, fault.ErrCorrupt), errors.Is(err, fault.ErrUnsupported),
		errors.Is(err, snapshot.ErrShardMissing), errors.Is(err, ErrTargetReplaced):
		return j.fail(work, err)
	case errors.Is(err, bulk.ErrTooManyRefusals), errors.Is(err, bulk.ErrIndexBlocked):
		if gerr := j.guard(work, 0); errors.Is(gerr, ErrTargetReplaced) { // deleted, not only blocked
			return j.fail(work, gerr)
		}
		return j.release(work, cms.CausePause, err)
	case errors.Is(err, objects.ErrRollover), errors.Is(err, fault.ErrConfig): // the user has to act
		return j.release(work, cms.CausePause, err)
	case errors.Is(err, fault.ErrUnavailable):
		return j.release(work, cms.CauseOutage, err)
	default:
		return j.release(work, cms.CauseNone, err)
	}
}

// returned decides how to release a lease that was stopped without progress, by an operator, a signal or its trigger.
func (j *job) returned(ctx context.Context) cms.EarlyRelease {
	if ctx.Err() != nil {
		return cms.EarlyRelease{Cause: cms.CauseDrain}
	}
	return j.unmoved()
}

// mayBeKnown returns the maximum age of the target check that ends an item. Small items leased as a group share one check; the end of the
// documents phase checks all targets again.
func (j *job) mayBeKnown() time.Duration {
	if j.lease.Grouped() {
		return KnownFor
	}
	return 0
}

// lastLooks is the maximum number of target checks before an item is completed, lookAgain the pause between them: a busy target rejects
// these requests, too (429).
const (
	lastLooks = 6
	lookAgain = time.Second
)

// lookBeforeEnd checks that the target is still the same. It retries while the target cannot answer and the lease has time left.
func (j *job) lookBeforeEnd(ctx context.Context) error {
	looks := retry.Policy{Tries: lastLooks, First: lookAgain, Sleep: j.runner.Clock.Sleep,
		Left: func() time.Duration { return j.lease.UntilDeadline() - j.lease.HandoffTime() }}
	return looks.Do(ctx, func(ctx context.Context) error { return j.guard(ctx, j.mayBeKnown()) })
}

func (j *job) complete(ctx context.Context) (Outcome, error) {
	watermark, counts := j.settled()
	if end := j.source.End(); end == Unknown || watermark < end { // a record counts as done but is not durable
		return j.release(ctx, cms.CauseNone, fmt.Errorf("watermark %d of %d after the last document", watermark, end))
	}
	if err := j.lookBeforeEnd(ctx); err != nil {
		return j.finish(ctx, ctx, err)
	}
	if err := j.out.Commit(ctx); err != nil {
		return j.release(ctx, cms.CauseNone, err)
	}
	did, err := j.work(watermark, counts)
	if err != nil {
		return j.release(ctx, cms.CauseNone, err)
	}
	if err := j.lease.Complete(ctx, did); err != nil {
		return j.unanswered(ctx, Completed, err) // it names the item
	}
	return Completed, nil
}

// handOff creates a successor for the rest of the item. Without progress it releases the lease as r states; without time for a successor,
// it releases the lease with the progress recorded.
func (j *job) handOff(ctx context.Context, r cms.EarlyRelease) (Outcome, error) {
	if j.loader == nil { // stopped before the first document
		return j.releaseAs(ctx, r, nil)
	}
	// At most half of the remaining time is for requests in flight; the other half is for the hand-off.
	left := j.lease.UntilDeadline()
	drain, cancel := context.WithTimeout(ctx, min(drainTimeout, left/2, left-j.lease.HandoffTime()))
	j.loader.Drain(drain)
	cancel()
	watermark, counts := j.settled()
	switch {
	case j.runner.Endless:
		return j.releaseAs(ctx, cms.EarlyRelease{Cause: cms.CauseDrain}, nil)
	case j.source.End() != Unknown && watermark >= j.source.End():
		return j.complete(ctx)
	case watermark <= j.begin:
		return j.releaseAs(ctx, r, nil)
	}
	if j.lease.UntilDeadline() < j.lease.HandoffTime() {
		return j.releaseAs(ctx, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}, nil)
	}
	if err := j.guard(ctx, j.mayBeKnown()); errors.Is(err, ErrTargetReplaced) {
		return j.fail(ctx, err)
	} // if the target does not answer, the work is kept: the end of the documents phase checks again
	if err := j.out.Commit(ctx); err != nil {
		return j.release(ctx, cms.CauseOutage, err)
	}
	did, err := j.work(watermark, counts)
	if err != nil {
		return j.release(ctx, cms.CauseNone, err)
	}
	if err := j.lease.Handoff(ctx, watermark, did); err != nil {
		return j.unanswered(ctx, HandedOff, fmt.Errorf("hand off %s: %w", j.id.Name(), err))
	}
	return HandedOff, nil
}

// release releases the item and returns why.
func (j *job) release(ctx context.Context, cause cms.Cause, why error) (Outcome, error) {
	return j.releaseAs(ctx, cms.EarlyRelease{Cause: cause}, why)
}

// releaseAs releases the item as r states. The next holder starts at the watermark and repeats the documents beyond it.
func (j *job) releaseAs(ctx context.Context, r cms.EarlyRelease, why error) (Outcome, error) {
	j.abort()
	if j.loader != nil && j.runner.Destination.Durable() && r.Cause != cms.CausePause { // rejected documents may be wanted again
		if watermark, counts := j.settled(); watermark > j.begin {
			did, err := j.work(watermark, counts)
			if err != nil {
				return Lost, errors.Join(why, err)
			}
			r.Watermark, r.Work = watermark, did
		}
	}
	err := j.lease.ReleaseWith(ctx, r)
	switch {
	case err == nil:
		return Released, why
	case errors.Is(err, cms.ErrStoreGone) && errors.Is(why, cms.ErrStoreGone): // the same once more
		return Lost, why
	}
	return Lost, errors.Join(why, err)
}

// tooLate ends a lease that is past its deadline or held by another process. No document is sent any more; until the lease itself ends
// the item can still be released for the next holder.
func (j *job) tooLate(ctx context.Context, why error) (Outcome, error) {
	why = fmt.Errorf("%s: %w", j.id.Name(), why)
	if j.lease.Lost() != nil {
		j.abort()
		return Lost, why
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(FinalReadTimeout, j.lease.UntilEnd()))
	defer cancel()
	if _, err := j.releaseAs(late, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}, nil); err != nil {
		why = errors.Join(why, err)
	}
	return Lost, why
}

// unanswered decides the outcome when the request that ends the lease failed or got no answer: it may have been executed nevertheless. If
// it was not, the item is released.
func (j *job) unanswered(ctx context.Context, meant Outcome, why error) (Outcome, error) {
	if j.lease.Lost() != nil {
		return Lost, why
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), FinalReadTimeout)
	defer cancel()
	if j.lease.Over(late) {
		return meant, nil
	}
	return j.releaseAs(late, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}, why)
}

// fail marks the item as failed.
func (j *job) fail(ctx context.Context, why error) (Outcome, error) {
	if j.loader != nil {
		drain, cancel := context.WithTimeout(ctx, drainTimeout)
		if errors.Is(why, fault.ErrCorrupt) { // documents before the damage are still delivered
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

// recordLast records what arrived before an item is failed, so that it is counted. If the store does not answer, the counts of the last
// record remain. It returns the checks of the item, including the number of documents that the shard holds.
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

// ErrTargetReplaced means that a target index is not the one this migration started with. Documents sent to the former index are lost, so
// nothing may be reported as complete.
var ErrTargetReplaced = fmt.Errorf("target_index_replaced: %w", fault.ErrRejected)

// FinalReadTimeout is the timeout for reading the item after its lease has ended.
const FinalReadTimeout = 3 * time.Second

// KnownFor is the time for which the leases of a process share one check of an index. The end of the documents phase always checks again.
const KnownFor = 30 * time.Second
