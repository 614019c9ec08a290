package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// errStop ends copying before the end of the shard without an error: at the lease's trigger or on a signal.
var errStop = errors.New("stopped before the end of the shard")

// job is one active lease: a source from the item's cursor on.
type job struct {
	runner *Runner
	lease  *cms.Lease
	id     cms.ItemID
	begin  int64 // first ordinal of this acquisition
	from   Source
	guard  func(ctx context.Context, maxAge time.Duration) error
	log    *slog.Logger

	source Reading // nil until it is open
	out    Output
	loader *bulk.Loader
	loaded atomic.Pointer[bulk.Loader] // loader, for readers in other goroutines

	end       atomic.Int64  // end of the source; Unknown until it is known
	sent      *sent         // counts requests; nil before the source is open
	noted     *int64        // with bulk.Keep: ordinal recorded as the limit below which documents may have been sent; else nil
	alone     *alone        // nil unless the lease is worked on alone
	reads     atomic.Int64  // steps that read a record
	seen      atomic.Int64  // value of reads when lastRead was set
	lastRead  atomic.Int64  // monotonic clock in ns of the last check that found new reads; 0 before the first
	acquired  time.Duration // monotonic clock
	firstRead atomic.Int64  // monotonic clock in ns when the first document was read, which ends the setup; 0 before
	copied    time.Duration // monotonic clock when the copying ended
}

// open opens the source and the output. Requests may start while work lasts and the lease is valid.
func (j *job) open(ctx, work context.Context) error {
	if err := j.guard(ctx, KnownFor); err != nil {
		return err
	}
	opts := j.runner.Bulk
	mayStart := func() error { return j.lease.MayStart(work) }
	opts.From, opts.MayStart, opts.First = j.begin, mayStart, !j.lease.Follows()
	var err error
	if j.source, err = j.from.Open(ctx, j.id, &opts); err != nil {
		return err
	}
	j.end.Store(j.source.End())
	if end := j.source.End(); end != Unknown && j.begin > end {
		return fmt.Errorf("ordinal %d lies beyond the %d of %s: %w", j.begin, end, j.id.Name(), fault.ErrCorrupt)
	}
	if j.out, err = j.runner.Destination.Open(ctx, j.id, mayStart); err != nil {
		return err
	}
	j.sent = &sent{next: j.out}
	opts.Sender, opts.Recorder = j.sent, j.runner.Failed
	j.source.Wrap(&opts)
	if opts.Existing == bulk.Keep {
		if opts.SentBelow, err = j.lease.SentBelow(ctx); err != nil {
			return err
		}
		j.noted = &opts.SentBelow
	}
	if j.alone != nil || j.lease.Grouped() || !j.runner.Destination.Durable() {
		opts.MaxInFlight = 1 // a file is written in order and ends at the watermark; small items need no more
	}
	j.loader = bulk.New(ctx, opts)
	j.loaded.Store(j.loader)
	return nil
}

// run opens the shard and copies it. It returns nil at the end of the shard, errStop once stopping is done, or the error that ended it.
func (j *job) run(work, stopping context.Context) error {
	var stopped atomic.Bool
	reading, cancel := context.WithCancel(work)
	defer cancel()
	defer context.AfterFunc(stopping, func() { stopped.Store(true); cancel() })()

	err := j.settleBlame()
	if err == nil {
		err = j.open(reading, work)
	}
	if err == nil {
		err = j.copy(reading)
	}
	if err != nil && stopped.Load() && !errors.Is(err, fault.ErrLeaseLost) {
		return errStop // the next holder will meet any other error, too
	}
	return err
}

// settleBlame runs before any other work on an item whose former holders crashed. It returns an error if the document at fault is known;
// otherwise the item is worked on alone, so that the next crash identifies it.
func (j *job) settleBlame() error {
	if d := j.lease.Condemned(); d != nil {
		return d
	}
	if !j.lease.Alone() {
		return nil
	}
	j.alone = &alone{records: part, from: j.begin, last: j.begin} // the first part starts with the first record
	j.log.Warn("item is worked on alone", "attempts", j.lease.Item.Attempts)
	return nil
}

// copy copies documents until the source ends, ctx is done, or an error occurs.
func (j *job) copy(ctx context.Context) error {
	to, most := &Sink{j}, recordsPerStep
	if j.alone != nil {
		most = 1
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.alone.checkpoint(ctx, j); err != nil {
			return err
		}
		if err := j.source.Next(ctx, to, most); err != nil {
			if errors.Is(err, io.EOF) {
				j.loader.Advance(j.source.End())
				return j.loader.Flush(ctx)
			}
			return err
		}
	}
}

// recordsPerStep is the number of records between two checks of the context and of the end, unless the job works alone. Checking after
// each small document would take as long as the document.
const recordsPerStep = 16

// Sink receives the documents of a source, in order.
type Sink struct{ j *job }

// Read must be called after the first record of a step is read and before it is processed. ordinal is the ordinal of that record. Only
// the first call reads the clock.
func (s *Sink) Read(ordinal int64) {
	if s.j.reads.Add(1) == 1 {
		now := int64(s.j.runner.Clock.Read().Mono)
		s.j.firstRead.Store(now)
		s.j.lookAtReads(now)
	}
	if s.j.alone != nil {
		s.j.alone.last = ordinal
	}
}

// lookAtReads sets lastRead to now if records were read since the previous call. report calls it every reportInterval.
func (j *job) lookAtReads(now int64) {
	if n := j.reads.Load(); j.seen.Swap(n) != n {
		j.lastRead.Store(now)
	}
}

// Add sends a document. The document is only valid during the call.
func (s *Sink) Add(ctx context.Context, d *doc.Document) error {
	if s.j.noted != nil {
		if err := s.j.noteSent(ctx, d.Ordinal); err != nil {
			return err
		}
	}
	return s.j.loader.Add(ctx, d)
}

// Fail records a document that is not sent.
func (s *Sink) Fail(ctx context.Context, f doc.Failure) error { return s.j.loader.Fail(ctx, f) }

// Filter counts a document that is left out by choice.
func (s *Sink) Filter(ctx context.Context, ordinal int64) error {
	return s.j.loader.Filter(ctx, ordinal)
}

// Pass records that nothing remains to be sent up to and including an ordinal.
func (s *Sink) Pass(ordinal int64) { s.j.loader.Advance(ordinal + 1) }

// Flush blocks until all documents added before are delivered.
func (s *Sink) Flush(ctx context.Context) error { return s.j.loader.Flush(ctx) }

// SendNow sends the buffered documents without waiting for the response; release is called when they are delivered.
func (s *Sink) SendNow(ctx context.Context, release func()) error {
	return s.j.loader.SendNow(ctx, release)
}

// sentAhead is the number of ordinals recorded in advance as possibly sent. After a crash, at most as many documents are compared with
// the target.
const sentAhead = 100_000

// noteSent records that a document may have been sent, before it can be sent.
func (j *job) noteSent(ctx context.Context, ordinal int64) error {
	if ordinal < *j.noted {
		return nil
	}
	below := ordinal + sentAhead
	if end := j.source.End(); end != Unknown {
		below = min(below, end)
	}
	if err := j.lease.NoteSent(ctx, below); err != nil {
		return err
	}
	j.noted = &below
	return nil
}

// progress returns the progress of the job.
func (j *job) progress() Progress {
	l := j.loaded.Load()
	if l == nil {
		return Progress{}
	}
	watermark, _ := l.Settled()
	c := l.Counts()
	p := Progress{Documents: c.Indexed + c.Kept + c.Failed, Bytes: c.Bytes, Failed: c.Failed, Resent: c.Resent, Retries: c.Retries}
	if size := j.from.Bytes(j.id); size > 0 && j.end.Load() > 0 {
		p.ShardBytes = int64(float64(size) * float64(watermark-j.begin) / float64(j.end.Load()))
	}
	return p
}

// ahead returns the watermark and counts of the item, including earlier leases; false before the source is open.
func (j *job) ahead() (progress.Ahead, bool) {
	l := j.loaded.Load()
	if l == nil {
		return progress.Ahead{}, false
	}
	watermark, _ := l.Settled()
	c := l.Counts()
	return progress.Ahead{Watermark: watermark, Counts: j.lease.Item.Counts.Add(cms.Counts{Indexed: c.Indexed, Failed: c.Failed, Filtered: c.Filtered, Kept: c.Kept, Bytes: c.Bytes})}, true
}

// kept returns the number of documents that the target already had and kept.
func (j *job) kept() int64 {
	if l := j.loaded.Load(); l != nil {
		return l.Counts().Kept
	}
	return 0
}

// settled returns the watermark and the counts of the documents from the start of this lease to the watermark.
func (j *job) settled() (int64, cms.Counts) {
	w, c := j.loader.Settled()
	sum := cms.Counts{
		Ordinals: w - j.begin, Live: c.Live, Indexed: c.Indexed, Failed: c.Failed,
		Filtered: c.Filtered, Bytes: c.Bytes, Reduced: c.Reduced, Rebuilt: c.Rebuilt, KeptLast: c.KeptLast, Kept: c.Kept, Deleted: c.Deleted,
		Retried: c.Resent, Rewrites: c.Rewrites, Moved: c.Moved,
	}
	if j.lease.Follows() {
		sum.Resent = c.Copies
	} else {
		sum.Replaced = c.Copies
	}
	return w, sum
}

// work returns the record to store with the item: counts, durations, and the checksums of the file ranges that this lease owns up to
// the watermark.
func (j *job) work(watermark int64, counts cms.Counts) (cms.Work, error) {
	w := cms.Work{Counts: counts}
	first := time.Duration(j.firstRead.Load())
	if first != 0 {
		w.Setup = first - j.acquired
	}
	var copying time.Duration
	if first != 0 {
		copying = j.runner.Clock.Read().Mono - first
	}
	var err error
	if w.Checks, err = j.source.Checks(watermark, w.Setup, copying); err != nil {
		return cms.Work{}, fmt.Errorf("checksums of %s: %w", j.id.Name(), err)
	}
	return w, nil
}

// reportInterval is the interval at which a running lease checks whether to record progress or to check the target.
const reportInterval = 500 * time.Millisecond

// guardInterval is the minimum interval at which a running lease checks whether the target is still the same.
const guardInterval = 30 * time.Second

// ShutdownTimeout is the maximum time from a signal to the end of the work. Supervisors usually kill a process after 30 s.
const ShutdownTimeout = 20 * time.Second

// errHandoffTimeout ends the work when a hand-off after a signal takes too long, for example because the target hangs.
var errHandoffTimeout = errors.New("no time left to hand off after the signal")

// looked returns the check that the guard of the lease calls repeatedly: at the lease's trigger it calls trigger, and it returns
// errHandoffTimeout once stopped has been closed for ShutdownTimeout. It sends no request.
func (j *job) looked(stopped <-chan struct{}, trigger context.CancelFunc) func() error {
	var signalled time.Duration // when stopped was first seen closed; 0 before
	return func() error {
		if j.lease.UntilTrigger() <= 0 {
			trigger()
		}
		select {
		case <-stopped:
		default:
			return nil
		}
		now := j.runner.Clock.Read().Mono
		if signalled == 0 {
			signalled = now
		}
		if now-signalled < ShutdownTimeout {
			return nil
		}
		return errHandoffTimeout
	}
}

// report records progress and verifies the lease and the target at intervals (immediately after a pause of the process) until ctx ends.
// It calls end if the lease is lost or the target was replaced.
func (j *job) report(ctx context.Context, end context.CancelCauseFunc) {
	begin := j.runner.Clock.Read().Mono
	recorded, guarded := begin, begin
	moved := false // whether the first progress is recorded, which distinguishes a slow shard from a crashing one
	for j.runner.Clock.Sleep(ctx, reportInterval) == nil {
		now := j.runner.Clock.Read().Mono
		j.lookAtReads(int64(now))
		err := j.lease.MayStart(ctx)
		// More often at first, so that early crashes of workers do not lose all their work.
		due := min(j.runner.recordEvery(), max((now-begin)/2, j.runner.recordEvery()/16))
		if err == nil && (now-recorded >= j.runner.recordEvery() || moved && now-recorded >= due || !moved && j.moved()) {
			recorded, moved = now, moved || j.moved()
			err = j.record(ctx)
		}
		if err == nil && now-guarded >= j.runner.guardEvery() {
			guarded = now
			err = j.guard(ctx, KnownFor)
		}
		if errors.Is(err, fault.ErrLeaseLost) || errors.Is(err, cms.ErrStoreGone) || errors.Is(err, ErrTargetReplaced) || errors.Is(err, objects.ErrRollover) {
			end(err)
			return
		}
	}
}

// moved reports whether the watermark has advanced.
func (j *job) moved() bool {
	l := j.loaded.Load()
	return l != nil && l.Watermark() > j.begin
}

// record stores the watermark with the item, or the position reached if the output is not durable. Its failure does not end the work: the
// lease bounds an outage of the store.
func (j *job) record(ctx context.Context) error {
	if j.loaded.Load() == nil || j.lease.Alone() { // alone, checkpoint records the position
		return j.lease.Validate(ctx)
	}
	watermark, counts := j.settled()
	if watermark <= j.begin {
		return j.lease.Validate(ctx)
	}
	if !j.runner.Destination.Durable() {
		return j.lease.Reach(ctx, watermark)
	}
	w, err := j.work(watermark, counts)
	if err != nil {
		return err
	}
	return j.lease.Progress(ctx, watermark, w)
}

func (j *job) close() {
	if j.source == nil {
		return
	}
	if err := j.source.Close(); err != nil {
		j.log.Debug("close source", "error", err)
	}
}
