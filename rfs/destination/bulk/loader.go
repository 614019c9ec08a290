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

// Defaults of Options.
const (
	DefaultMaxBytes     = 5 << 20
	DefaultMaxInFlight  = 10
	DefaultStallTimeout = 10 * time.Minute
	DefaultMaxAge       = 10 * time.Second
)

// maxFailures limits the failures of one batch.
const maxFailures = 1000

// Recorder stores failed documents. It is safe for concurrent use.
type Recorder interface {
	// Record appends failures; they are durable after the next Sync.
	Record(ctx context.Context, failures []doc.Failure) error
	Sync(ctx context.Context) error
}

// Options configures a Loader. Sender and Recorder are required; zero values of the others mean
// their defaults.
type Options struct {
	Sender   Sender
	Recorder Recorder
	From     int64  // start of the watermark
	Index    string // target index of most documents; used in errors only
	Shard    int    // shard of the documents, for the record of failures
	EmitType bool   // write the mapping type into action lines
	// Existing decides about documents whose id the target has.
	Existing Existing
	// SentBelow is the ordinal below which documents may have been sent before. With Keep, an existing document
	// is compared with the sent one, also after a request whose response was lost; our own copy counts as
	// indexed.
	SentBelow int64
	// Finder makes that comparison; if it is nil, existing documents count as kept. With Own it also detects documents that
	// share an id but not the routing.
	Finder Finder
	// Ordered makes documents of the same index and id take effect in the order of their ordinals: no two concurrent
	// requests share a document. Without it an id occurs once, or any order is right.
	Ordered bool
	Targets []string // all target indices of the documents, without those named by rules
	// Own states that documents of the target indices come from this session only, so that their versions count what it sent
	// before. Without it a document that was there counts once.
	Own bool
	// Made reports likewise of an index that is created or found empty when the first document for it comes; nil: none.
	Made func(index string) bool
	// First states, with Own or Made, that only this Loader has sent documents from the range. A document that replaces another in
	// these indices is then a collision. It is recorded as failed, since one of the two is missing on the target.
	First bool
	// Distinct states that no two documents of this session have the same id, so that a collision is with a document of another client.
	Distinct bool
	MaxID    int // longest id that is sent, in bytes: a document with a longer one fails by itself; 0: any

	MaxBytes    int    // bytes of a body, DefaultMaxBytes; a larger document goes alone
	MaxDocs     int    // documents of a body; no limit
	MaxInFlight int    // concurrent requests, DefaultMaxInFlight
	Bounds      Bounds // lower bounds that change while documents are sent; nil: none
	// MaxAge is the time that a body waits for more documents. The first Add, Fail or Filter after it sends the
	// body, or one of the next 63 if documents come fast. It limits the work that is repeated after a stop.
	// DefaultMaxAge.
	MaxAge time.Duration

	// MayStart is called before each request; after an error no request is started
	// any more. nil: always.
	MayStart func() error
	Breaker  *Breaker  // nil: none
	Pool     *Pool     // buffers that the Loaders of a process share; nil: of its own
	Recovery *Recovery // ends pauses of the Loaders of a process; nil: of its own
	// StallTimeout is the time without an accepted document of a body after which the Loader stops with
	// fault.ErrUnavailable; DefaultStallTimeout.
	StallTimeout time.Duration

	Now    func() time.Time                                 // time.Now
	Pause  func(ctx context.Context, d time.Duration) error // waits for d or until ctx ends
	Jitter func() float64                                   // in [0,1), random
}

// Counts are the results of documents.
type Counts struct {
	Live     int64 // Indexed + Kept + Failed + Filtered
	Indexed  int64 // accepted by the target
	Failed   int64 // recorded as failed
	Filtered int64 // left out by choice
	Reduced  int64 // of Indexed: doc.Document.Reduced
	Kept     int64 // refused because the target has the id: Options.Existing
	Bytes    int64 // bytes of the sources of documents indexed, kept or failed
	Requests int64 // requests started
	Retries  int64 // of these: repetitions, whole or in part
	Resent   int64 // documents sent again by these repetitions, each time counted
	Copies   int64 // of Indexed: documents that the target took before, except for possible repetitions; see DESIGN.md
	Rebuilt  int64 // of Live, without documents that were never sent: the source was rebuilt from other fields
	KeptLast int64 // likewise: of duplicate keys the last was kept
	Deleted  int64 // of Live: deletions
	// Rewrites is the number of writes beyond the first for each of Indexed, by the versions in the target's responses.
	Rewrites int64
	Moved    int64 // of Indexed: an ingest pipeline gave them another index or id
}

func (c *Counts) add(d Counts) {
	c.Live += d.Live
	c.Indexed += d.Indexed
	c.Failed += d.Failed
	c.Filtered += d.Filtered
	c.Reduced += d.Reduced
	c.Bytes += d.Bytes
	c.Requests += d.Requests
	c.Retries += d.Retries
	c.Resent += d.Resent
	c.Copies += d.Copies
	c.Rebuilt += d.Rebuilt
	c.KeptLast += d.KeptLast
	c.Deleted += d.Deleted
	c.Rewrites += d.Rewrites
	c.Moved += d.Moved
	c.Kept += d.Kept
}

// errStopped ends the goroutine of a batch after a stop; the batch is not done.
var errStopped = errors.New("loader stopped")

// Loader loads the documents of one shard. One goroutine calls Add, Fail, Filter, Advance, Flush,
// Drain and Abort; Watermark, Counts, Settled and Overloaded may be called by any.
type Loader struct {
	opts         Options
	limiter      *aimdLimiter
	slots        chan struct{} // one per batch that has a goroutine
	freed        chan struct{} // holds an element when a slot has been freed
	wg           sync.WaitGroup
	ctx          context.Context // of the goroutines; cancelled by Abort, and by Drain when its ctx is done
	cancel       context.CancelFunc
	dispatchCtx  context.Context // done when no request may be started any more
	stopDispatch context.CancelFunc

	cur       *batch // being filled; nil when empty
	lines     lines
	most      int       // bytes of a body at present
	lastClock time.Time // last reading of the clock
	skipClock int       // documents until the next reading

	halted  atomic.Bool            // no request may be started any more
	refused atomic.Pointer[string] // the index that was refused last

	mu        sync.Mutex
	err       error // first fatal error
	stopped   bool
	queue     []*batch // not settled, in order of ordinals, the current one last
	watermark int64    // the watermark
	settled   Counts
	total     Counts
}

// New returns a Loader. Its requests have the values of ctx, such as a span; its end does not stop them. The Loader has goroutines only
// while requests are in flight.
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

// Add queues a document, borrowed until it returns. Its ordinal is greater than all earlier ones, and the
// ordinals in between are done (deleted, nested). It blocks while the window is full. On error the document
// was not queued; it returns the first fatal error, or ctx's error.
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
		if l.opts.Ordered && l.underWay(key) {
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

// Fail queues the failure of a live document that is not sent. It is recorded with its batch and then counts as done.
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
	if !l.queue[n-1].done { // its goroutine counts in it
		l.queue = append(l.queue, &batch{from: ordinal, done: true})
		n++
	}
	tail := l.queue[n-1]
	tail.counts.add(c)
	tail.to = max(tail.to, ordinal+1)
}

// Advance marks everything below the ordinal that was not added as done.
func (l *Loader) Advance(ordinal int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.queue); n > 0 {
		l.queue[n-1].to = max(l.queue[n-1].to, ordinal)
		return
	}
	l.watermark = max(l.watermark, ordinal)
}

// reserve returns the batch for an entry of size bytes; a full one is flushed first.
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

// If documents come faster than one per fastDocument, the clock and the bounds are read only for every untimedDocuments-th:
// that takes longer than adding a small document.
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

// open starts a batch at an ordinal.
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

// flushBatch blocks until the window has room and starts a goroutine for the current batch.
func (l *Loader) flushBatch(ctx context.Context) error {
	if l.halted.Load() {
		return l.reason()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := l.room(ctx); err != nil {
		return err
	}
	l.launch()
	runtime.Gosched() // while all cores fill bodies, the request would otherwise start only after several more of them
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

// launch starts a goroutine for the current batch, which frees the slot that the caller acquired.
func (l *Loader) launch() {
	b := l.cur
	l.cur = nil
	l.mu.Lock()
	b.to = max(b.to, b.end)
	l.mu.Unlock()
	l.wg.Go(func() {
		defer l.freeSlot()
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

// Drain stops starting requests, even for buffered documents, and waits for the requests in flight; when ctx
// is done they are cancelled. A batch that consists of failures needs no request and is recorded. Afterwards
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

// Abort cancels the requests in flight and waits for their end.
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

// halt stops starting requests; the first err that is not nil is kept as the reason.
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

// Watermark returns the lowest ordinal that is not durably done: not acknowledged by the
// target, and not in the synced record of failures.
func (l *Loader) Watermark() int64 {
	w, _ := l.Settled()
	return w
}

// Counts returns the counts of all documents with a result, also above the watermark.
func (l *Loader) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Overloaded reports whether the target refuses documents of this Loader for now while it takes documents of others.
func (l *Loader) Overloaded() bool {
	index := l.refused.Load()
	return index != nil && l.opts.Recovery.overloaded(*index)
}

// Settled returns the watermark and the counts of exactly the documents below it, without the numbers of requests. Both
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
	b.counts.Resent = b.resent // l.total has them since they were sent
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
