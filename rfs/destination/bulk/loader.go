// Package bulk sends documents in ascending order of their ordinals in concurrent bulk
// requests, and maintains the watermark: the ordinal below which everything is done.
package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// maxFailures limits the failures of one batch.
const maxFailures = 1000

// errStopped ends the goroutine of a batch after a stop; the batch is not done.
var errStopped = errors.New("loader stopped")

// Loader loads the documents of one shard. One goroutine calls Add, Fail, Filter, Advance, SendNow, Flush,
// Drain and Abort; any goroutine may call Watermark, Counts, Settled and Overloaded.
type Loader struct {
	opts         Options
	limiter      *aimdLimiter
	slots        chan struct{} // one per batch that has a goroutine
	freed        chan struct{} // signalled when a slot is released
	wg           sync.WaitGroup
	ctx          context.Context // of the goroutines; cancelled by Abort, and by Drain when its ctx is done
	cancel       context.CancelFunc
	dispatchCtx  context.Context // done when no further request may start
	stopDispatch context.CancelFunc

	cur       *batch // being filled; nil when empty
	lines     lines
	most      int       // current maximum length of a body
	lastClock time.Time // last reading of the clock
	skipClock int       // documents until the next reading

	halted  atomic.Bool            // no further request may start
	refused atomic.Pointer[string] // the index rejected last

	mu        sync.Mutex
	err       error // first fatal error
	stopped   bool
	queue     []*batch // not settled, in order of ordinals, the current one last
	watermark int64
	settled   Counts // of the documents below the watermark
	total     Counts
}

// New returns a Loader. Its requests inherit the values of ctx, such as a span, but not its cancellation. The Loader has goroutines
// only while requests are in flight.
func New(ctx context.Context, opts Options) *Loader {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = DefaultMaxInFlight
	}
	if opts.StallTimeout <= 0 {
		opts.StallTimeout = DefaultStallTimeout
	}
	if opts.MaxAge <= 0 {
		opts.MaxAge = DefaultMaxAge
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Pause == nil {
		opts.Pause = wait.For
	}
	if opts.Jitter == nil {
		opts.Jitter = rand.Float64
	}
	if opts.Pool == nil {
		opts.Pool = &Pool{}
	}
	if opts.Recovery == nil {
		opts.Recovery = &Recovery{}
	}
	l := &Loader{opts: opts, limiter: newAIMDLimiter(opts.MaxInFlight), slots: make(chan struct{}, opts.MaxInFlight), freed: make(chan struct{}, 1), watermark: opts.From,
		lines: lines{op: opts.Existing.op(), emitType: opts.EmitType, version: opts.Existing.versioned()}}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.dispatchCtx, l.stopDispatch = context.WithCancel(l.ctx)
	return l
}

// Add queues d, which is borrowed until Add returns. Its ordinal must be greater than all earlier ones; the
// ordinals in between count as done (deleted, nested). Add blocks while MaxInFlight bodies are in flight. On error, the first fatal
// one or the error of ctx, the document is not queued.
func (l *Loader) Add(ctx context.Context, d *doc.Document) error {
	if most := l.opts.MaxID; most > 0 && len(d.ID) > most { // a target rejects the whole request for it
		return l.Fail(ctx, doc.Failure{
			Index: string(d.Index), ID: string(d.ID), Type: string(d.Type), Routing: string(d.Routing), Shard: l.opts.Shard, Ordinal: d.Ordinal,
			Reason: doc.LongID, Detail: fmt.Sprintf("an id of %d bytes: targets take %d", len(d.ID), most), Source: bytes.Clone(d.Source),
		})
	}
	var key uint64
	if l.opts.Ordered {
		key = keyOf(d.Index, d.ID)
	}
	for {
		b, err := l.reserve(ctx, d.Ordinal, len(d.Source)+1)
		if err != nil {
			return err
		}
		if l.opts.Ordered && l.inFlight(key) {
			if err := l.Flush(ctx); err != nil {
				return err
			}
			continue
		}
		if len(b.body)+len(d.Source)+usualLine > cap(b.body) {
			b.reserve(len(d.Source)+usualLine, l.opts.MaxBytes+usualLine)
		}
		body := l.lines.append(b.body, d)
		if size := len(body) - len(b.body) + len(d.Source) + 1; b.weight == 0 || b.weight+size <= l.most {
			b.append(d, body, l.lines.changes, key)
			return nil
		}
		if err := l.flushBatch(ctx); err != nil { // the next batch starts with this document
			return err
		}
	}
}

// Fail queues the failure of a live document that is not sent. It is recorded, and then done, with its batch.
func (l *Loader) Fail(ctx context.Context, f doc.Failure) error {
	b, err := l.reserve(ctx, f.Ordinal, len(f.Source))
	if err != nil {
		return err
	}
	b.failures = append(b.failures, f)
	b.weight += len(f.Source)
	b.counts.Live++
	b.counts.Bytes += int64(len(f.Source))
	b.extend(f.Ordinal)
	return nil
}

// Filter counts a live document that is left out by choice. Unless an earlier document is buffered or in
// flight, it is settled when Filter returns.
func (l *Loader) Filter(ctx context.Context, ordinal int64) error {
	if l.halted.Load() {
		return l.reason()
	}
	if l.cur != nil && l.aged() {
		if err := l.flushBatch(ctx); err != nil {
			return err
		}
	}
	if b := l.cur; b != nil {
		b.counts.Live++
		b.counts.Filtered++
		b.extend(ordinal)
		return nil
	}
	l.skip(ordinal)
	return nil
}

// skip settles a filtered document that no buffered batch holds, after the batches in flight.
func (l *Loader) skip(ordinal int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Counts{Live: 1, Filtered: 1}
	l.total.add(c)
	n := len(l.queue)
	if n == 0 {
		l.settled.add(c)
		l.watermark = max(l.watermark, ordinal+1)
		return
	}
	if !l.queue[n-1].done { // its goroutine owns the counts
		l.queue = append(l.queue, &batch{from: ordinal, done: true})
		n++
	}
	tail := l.queue[n-1]
	tail.counts.add(c)
	tail.to = max(tail.to, ordinal+1)
}

// Advance marks all ordinals below ordinal that were not added as done.
func (l *Loader) Advance(ordinal int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.queue); n > 0 {
		l.queue[n-1].to = max(l.queue[n-1].to, ordinal)
		return
	}
	l.watermark = max(l.watermark, ordinal)
}

// reserve returns the batch for an entry of size bytes. If the current batch is full, it is flushed first.
func (l *Loader) reserve(ctx context.Context, ordinal int64, size int) (*batch, error) {
	if l.halted.Load() {
		return nil, l.reason()
	}
	if b := l.cur; b != nil && (l.aged() || b.weight+size > l.most || len(b.failures) >= maxFailures ||
		l.opts.MaxDocs > 0 && len(b.items) >= l.opts.MaxDocs) {
		if err := l.flushBatch(ctx); err != nil {
			return nil, err
		}
	}
	if l.cur == nil {
		l.cur = l.open(ordinal)
	}
	return l.cur, nil
}

// If documents arrive faster than one per fastDocument, the clock and the bounds are read only for every untimedDocuments-th:
// reading them takes longer than adding a small document.
const (
	fastDocument     = 100 * time.Microsecond
	untimedDocuments = 256
)

// aged reports whether the current batch has waited long enough for more documents.
func (l *Loader) aged() bool {
	if l.skipClock > 0 {
		l.skipClock--
		return false
	}
	now := l.opts.Now()
	if now.Sub(l.lastClock) < fastDocument {
		l.skipClock = untimedDocuments - 1
	}
	l.lastClock, l.most = now, l.maxBytes()
	return now.Sub(l.cur.opened) >= l.opts.MaxAge
}

// open returns a new batch that starts at an ordinal, and appends it to the queue.
func (l *Loader) open(ordinal int64) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.opts.Pool.get()
	b.from, b.to, b.end, b.opened = ordinal, ordinal, ordinal, l.opts.Now()
	if len(l.queue) == 0 {
		l.watermark = max(l.watermark, ordinal)
	}
	l.queue, l.most = append(l.queue, b), l.maxBytes()
	return b
}

// flushBatch blocks until a slot is free and starts a goroutine for the current batch.
func (l *Loader) flushBatch(ctx context.Context) error {
	if l.halted.Load() {
		return l.reason()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := l.acquireSlot(ctx); err != nil {
		return err
	}
	l.launch()
	runtime.Gosched() // while all cores fill bodies, the request would otherwise start only after several more bodies
	return nil
}

// SendNow sends the buffered documents without waiting for more. release is called when the body is settled and its
// memory released: immediately if nothing is buffered, never after a stop.
func (l *Loader) SendNow(ctx context.Context, release func()) error {
	if l.cur == nil {
		release()
		return nil
	}
	l.cur.release = release
	return l.flushBatch(ctx)
}

// launch starts a goroutine that sends the current batch and releases the slot that the caller acquired.
func (l *Loader) launch() {
	b := l.cur
	l.cur = nil
	l.mu.Lock()
	b.to = max(b.to, b.end)
	l.mu.Unlock()
	l.wg.Go(func() {
		defer l.releaseSlot()
		l.finish(b)
	})
}

// Flush sends the buffered documents and blocks until everything is done. It returns the first fatal error.
func (l *Loader) Flush(ctx context.Context) error {
	if l.cur != nil {
		if err := l.flushBatch(ctx); err != nil {
			return err
		}
	}
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.reason()
}

// Drain starts no further request, not even for buffered documents, and blocks until the requests in flight have ended. When ctx
// is done it cancels them. A buffered batch that consists only of failures needs no request and is recorded. Afterwards
// the Loader has no goroutines.
func (l *Loader) Drain(ctx context.Context) {
	l.halt(nil)
	if l.cur != nil {
		select {
		case l.slots <- struct{}{}:
			l.launch()
		case <-ctx.Done():
		}
	}
	if l.wait(ctx) != nil {
		l.Abort()
	}
}

// Abort cancels the requests in flight and blocks until they have ended.
func (l *Loader) Abort() {
	l.halt(nil)
	l.cancel()
	l.wg.Wait()
}

// wait blocks until all goroutines have ended, or ctx is done.
func (l *Loader) wait(ctx context.Context) error {
	taken := 0
	defer func() {
		for range taken {
			<-l.slots
		}
	}()
	for ; taken < cap(l.slots); taken++ {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.wg.Wait()
	return nil
}

// halt prevents further requests and keeps the first err that is not nil as the reason.
func (l *Loader) halt(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.stopped = true
	l.halted.Store(true)
	l.stopDispatch()
}

// reason returns the first fatal error, errStopped after Drain or Abort, else nil.
func (l *Loader) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return fmt.Errorf("load index %s, shard %d: %w", l.opts.Index, l.opts.Shard, l.err)
	case l.stopped:
		return errStopped
	}
	return nil
}

// Watermark returns the lowest ordinal that is not durably done: neither acknowledged by the
// target nor in the synced record of failures.
func (l *Loader) Watermark() int64 {
	w, _ := l.Settled()
	return w
}

// Counts returns the counts of all documents with a result, including documents above the watermark.
func (l *Loader) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Overloaded reports whether the target rejects documents of this Loader's index temporarily while it accepts documents of others.
func (l *Loader) Overloaded() bool {
	index := l.refused.Load()
	return index != nil && l.opts.Recovery.overloaded(*index)
}

// Settled returns the watermark and the counts of exactly the documents below it, without Requests and Retries. Both
// are read under one lock.
func (l *Loader) Settled() (int64, Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watermark, l.settled
}

// settle marks a batch as done and advances the watermark over all consecutive done batches.
func (l *Loader) settle(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.done = true
	l.total.add(b.counts)
	b.counts.Resent = b.resent // after the line above: request has added them to l.total
	if b.release != nil {
		b.body, b.items, b.failures = nil, nil, nil
		b.release()
	}
	for len(l.queue) > 0 && l.queue[0].done {
		head := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.settled.add(head.counts)
		l.watermark = max(l.watermark, head.to)
		l.opts.Pool.put(head, 2*l.opts.MaxBytes)
	}
	if len(l.queue) > 0 {
		l.watermark = max(l.watermark, l.queue[0].from)
	}
}
