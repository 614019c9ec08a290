package bulk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// backoff holds the longest pauses between attempts. A pause ends early when the target accepts a request; see Recovery.
var backoff = retry.Policy{First: 500 * time.Millisecond, Max: 30 * time.Second}

// finish sends a batch, records and syncs its failures, and settles it. After an error the batch
// stays in the queue and holds the watermark.
func (l *Loader) finish(b *batch) {
	err := l.deliver(b, b.items, 0)
	if err == nil {
		err = l.record(b)
	}
	switch {
	case err == nil:
	case errors.Is(err, errStopped):
		return
	default:
		l.halt(err)
		return
	}
	refusals := b.refusals()
	b.counts.Failed = int64(len(b.failures))
	b.counts.Indexed = b.counts.Live - b.counts.Kept - b.counts.Failed - b.counts.Filtered
	sent := slices.Clone(b.indices)
	l.settle(b)
	if err := l.observe(sent, refusals); err != nil {
		l.halt(err)
	}
}

// deliver sends items until each is accepted, kept or rejected permanently. before is the number of earlier requests that may
// have written them.
func (l *Loader) deliver(b *batch, items []item, before int64) error {
	var since time.Time // of the first attempt without progress; zero after progress
	for try := 0; len(items) > 0; try++ {
		res, err := l.request(b, items, try > 0)
		cause := err
		switch {
		case errors.Is(err, ErrTooLarge) && len(items) == 1:
			return b.fail(items[0], l.opts.Shard, 413, doc.TooLarge, fmt.Sprintf("%d bytes: %v", items[0].size(), err))
		case errors.Is(err, ErrTooLarge):
			half := len(items) / 2
			if err := l.deliver(b, items[:half], before); err != nil {
				return err
			}
			return l.deliver(b, items[half:], before)
		case errors.Is(err, fault.ErrUnavailable):
		case err != nil:
			return err
		default:
			rest, why, err := l.sortResult(b, items, res, before)
			if err != nil || len(rest) == 0 {
				return err
			}
			cause = fmt.Errorf("%d of %d documents refused for now, such as %s: %w", len(rest), len(items), why, fault.ErrUnavailable)
			if len(rest) < len(items) {
				try, since = 0, time.Time{}
			}
			items = rest
		}
		if mayHaveArrived(res, err) {
			before++
		}
		if err := l.backOff(&since, string(b.indexName(items[0])), try, res.RetryAfter, cause); err != nil {
			return err
		}
	}
	return nil
}

// mayHaveArrived reports whether the target may have written items although its answer requires sending them again.
func mayHaveArrived(res Result, err error) bool {
	return err != nil && !res.NoneTaken || slices.ContainsFunc(res.Refused, func(r Refusal) bool { return r.Status >= 500 })
}

// request sends items as one body once the limiter admits it, unless MayStart returns an error.
func (l *Loader) request(b *batch, items []item, again bool) (Result, error) {
	epoch, err := l.limiter.acquire(l.dispatchCtx)
	if err != nil {
		return Result{}, errStopped
	}
	load := neutral
	defer func() { l.limiter.release(epoch, load) }()
	if l.opts.MayStart != nil {
		if err := l.opts.MayStart(); err != nil {
			return Result{}, err
		}
	}
	c := Counts{Requests: 1}
	if again {
		c.Retries, c.Resent = 1, int64(len(items))
	}
	b.resent += c.Resent
	l.mu.Lock()
	l.total.add(c)
	l.mu.Unlock()
	res, err := l.opts.Sender.Send(l.ctx, b.body[items[0].start:items[len(items)-1].end], len(items))
	if load = loadOf(res, err); err == nil {
		l.accepted(b, items, res)
	}
	if err != nil && l.ctx.Err() != nil {
		return res, errStopped
	}
	return res, err
}

// accepted reports to the Recovery each index without an item rejected for overload.
func (l *Loader) accepted(b *batch, items []item, res Result) {
	const unseen, taken, refused = 0, 1, 2
	seen := make([]uint8, len(b.indices))
	for _, r := range res.Refused {
		if r.overload() && r.Pos >= 0 && r.Pos < len(items) {
			seen[items[r.Pos].indexOf()] = refused
		}
	}
	for _, it := range items {
		if n := it.indexOf(); seen[n] == unseen {
			seen[n] = taken
			l.opts.Recovery.accepted(string(b.indices[n].name))
		}
	}
}

// Overloaded reports whether an answer means that the target is overloaded: an unavailable target, or an item with 402, 429 or 503.
func Overloaded(res Result, err error) bool { return loadOf(res, err) == overloaded }

// loadOf classifies an answer by what it implies about the load of the target.
func loadOf(res Result, err error) outcome {
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return overloaded
	case err != nil:
		return neutral
	}
	for _, r := range res.Refused {
		if r.overload() {
			return overloaded
		}
	}
	return accepted
}

// reasonOf returns why a document was refused for now, and what to do about it where that is known.
func reasonOf(status int, kind, reason string) string {
	text, remedy := fault.Explain(status, kind, reason)
	if remedy != "" {
		remedy = " (" + remedy + ")"
	}
	return fmt.Sprintf("status %d: %s%s", status, text, remedy)
}

// sortResult counts kept documents, records permanent rejections as failures and returns the items to be sent again; why
// is the target's message for the first of these. before is the number of earlier requests that may have written the items.
func (l *Loader) sortResult(b *batch, items []item, res Result, before int64) (rest []item, why string, err error) {
	for _, r := range res.Replaced {
		if err := l.replaced(b, items, r, before); err != nil {
			return nil, "", err
		}
	}
	b.counts.Moved += int64(res.Moved)
	var keep []int
	var there []Refusal // existing documents that may be our own copies
	last := -1
	for _, r := range res.Refused {
		if r.Pos <= last || r.Pos >= len(items) {
			return nil, "", fmt.Errorf("answer for item %d after %d in a request of %d", r.Pos, last, len(items))
		}
		last = r.Pos
		switch {
		case r.Retryable():
			if keep == nil {
				why = reasonOf(r.Status, r.Type, r.Reason)
			}
			keep = append(keep, r.Pos)
		case l.opts.Existing == Follow && items[r.Pos].source == items[r.Pos].end && r.conflict(): // a deletion older than the target's document
			b.keep(items[r.Pos])
		case l.opts.Existing.keeps(r):
			if l.opts.Finder != nil && (l.mayBeOwn(items[r.Pos], before) || l.ours(b, items[r.Pos])) {
				there = append(there, r)
			} else {
				b.keep(items[r.Pos])
			}
		case concernsIndex(r):
			text, remedy := fault.Explain(r.Status, r.Type, r.Reason)
			if remedy != "" {
				text += "; " + remedy
			}
			return nil, "", fmt.Errorf("index %s: status %d: %s: %w", b.indexName(items[r.Pos]), r.Status, text, ErrIndexBlocked)
		default:
			if r.Written() {
				b.counts.Rewrites++
			}
			reason := doc.Reason(cmp.Or(r.Type, fmt.Sprintf("status_%d", r.Status)))
			if err := b.fail(items[r.Pos], l.opts.Shard, r.Status, reason, r.Reason); err != nil {
				return nil, "", err
			}
		}
	}
	if len(there) > 0 {
		unknown, err := l.findOwn(b, items, there, before)
		if err != nil {
			return nil, "", err
		}
		if len(unknown) > 0 {
			keep, why = append(keep, unknown...), cmp.Or(why, "documents that exist cannot be compared")
			slices.Sort(keep)
		}
	}
	if len(keep) == 0 {
		return nil, "", nil
	}
	if b.repeats {
		keep = withLater(items, keep, res)
	}
	return b.compact(items, keep), why, nil
}

// replaced counts an item that replaced a document of the target. before is the number of earlier requests that may have
// written copies of it. If only these can have written to the index, and the versions count more documents than requests, the
// replaced document was a different one with the same id, and is lost.
func (l *Loader) replaced(b *batch, items []item, r Replacement, before int64) error {
	if r.Pos < 0 || r.Pos >= len(items) {
		return fmt.Errorf("answer for item %d in a request of %d", r.Pos, len(items))
	}
	copies := max(r.Copies-before, 0)
	switch it := items[r.Pos]; {
	case l.opts.Ordered: // a stream repeats ids
	case copies > 0 && l.opts.First && l.ours(b, it):
		// Status 0: redrive does not send it again, which would change nothing.
		b.counts.Rewrites++
		if l.opts.Distinct {
			return b.fail(it, l.opts.Shard, 0, doc.Foreign, "it is on the target, where it has replaced a document that another client or session wrote with this id after the index had been created")
		}
		return b.fail(it, l.opts.Shard, 0, doc.Collision, "it is on the target, where it has replaced a document of this id on the same shard: one of another routing, of another index, or of another client")
	default:
		if !l.opts.Own {
			copies = min(copies, 1)
		}
		if l.opts.Existing != Follow { // with Follow, an earlier round sent the replaced document
			b.counts.Copies += copies
		}
		b.counts.Rewrites += r.Copies
	}
	return nil
}

// concernsIndex reports whether a rejection concerns the whole index: it would reject every document until it is repaired.
func concernsIndex(r Refusal) bool {
	switch r.Type {
	case "cluster_block_exception", "index_closed_exception", "index_not_found_exception", "security_exception":
		return true
	}
	return r.Status == 401 || r.Status == 403
}

// backOff blocks until the next attempt to send documents to an index. It returns cause if the target has accepted nothing for
// StallTimeout, and errStopped after a stop.
func (l *Loader) backOff(since *time.Time, index string, try int, atLeast time.Duration, cause error) error {
	now := l.opts.Now()
	if since.IsZero() {
		*since = now
	}
	left := l.opts.StallTimeout - now.Sub(*since)
	if left <= 0 {
		return fmt.Errorf("no document was taken for %v: %w", now.Sub(*since).Round(time.Second), cause)
	}
	l.refused.Store(&index)
	d := time.Duration(l.opts.Jitter() * float64(backoff.Pause(try+1)))
	if l.opts.Recovery.wait(l.dispatchCtx, l, index, min(d, left), min(atLeast, left)) != nil {
		return errStopped
	}
	return nil
}

// record writes and syncs the failures of a batch.
func (l *Loader) record(b *batch) error {
	if len(b.failures) == 0 {
		return nil
	}
	slices.SortFunc(b.failures, func(x, y doc.Failure) int { return cmp.Compare(x.Ordinal, y.Ordinal) })
	if err := l.opts.Recorder.Record(l.ctx, b.failures); err != nil {
		return fmt.Errorf("record %d failed documents: %w", len(b.failures), err)
	}
	if err := l.opts.Recorder.Sync(l.ctx); err != nil {
		return fmt.Errorf("sync failed documents: %w", err)
	}
	return nil
}

// refusals returns the failures of documents that the target rejected.
func (b *batch) refusals() []doc.Failure {
	var out []doc.Failure
	for _, f := range b.failures {
		if f.Status != 0 {
			out = append(out, f)
		}
	}
	return out
}

// observe passes the results of a batch to the breaker.
func (l *Loader) observe(sent []indexCount, refused []doc.Failure) error {
	if l.opts.Breaker == nil {
		return nil
	}
	var first error
	for _, x := range sent {
		var of []doc.Failure
		for _, f := range refused {
			if f.Index == string(x.name) {
				of = append(of, f)
			}
		}
		first = cmp.Or(first, l.opts.Breaker.observe(string(x.name), x.sent, of))
	}
	return first
}
