package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/metadata"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// errStop ends the copying of a shard early, in good order: the lease's trigger or a signal.
var errStop = errors.New("stopped before the end of the shard")

// job is one lease in work: a shard from the item's cursor on.
type job struct {
	runner *Runner
	lease  *cms.Lease
	id     cms.ItemID
	begin  int64 // first ordinal of this acquisition
	entry  Entry
	guard  func(context.Context) error
	log    *slog.Logger

	shard   *snapshot.Shard
	commit  *lucene.Commit
	reader  recordReader
	sampled *sample  // reader, in a trial run
	trying  *trying  // likewise
	builder *builder // nil: sources are stored
	memory  *allowance
	out     Output
	loader  *bulk.Loader
	loaded  atomic.Pointer[bulk.Loader] // what progress reads while the job runs

	maxOrdinal atomic.Int64
	sent       *sent         // what became of the requests; nil before the first
	noted      *int64        // with bulk.Keep: the ordinal below which it is recorded that documents may have been sent
	alone      *alone        // nil unless the lease is to be worked on alone
	lastRead   atomic.Int64  // monotonic clock in ns when the last record was read; 0 before
	acquired   time.Duration // monotonic clock
	firstRead  atomic.Int64  // monotonic clock in ns when setup ended: the first document was read; 0 before
}

// open finds the shard and everything that is needed to read it. Requests are started as
// long as work lasts and the lease is ours.
func (j *job) open(ctx, work context.Context) error {
	if err := j.guard(ctx); err != nil {
		return err
	}
	shard, err := snapshot.OpenShard(ctx, j.runner.Repo, j.entry.Locator, j.id.Shard)
	if err != nil {
		return err
	}
	dir := shard.Directory()
	if j.entry.Trial != nil {
		dir = nearby{dir}
	}
	j.shard = shard
	if j.builder, err = newBuilder(ctx, j.runner.Repo, j.entry); err != nil {
		return err
	}
	existing := j.entry.existing(j.runner.Bulk.Existing)
	j.commit, err = lucene.Open(ctx, dir, lucene.Options{Values: j.entry.needsValues(j.builder) || existing == bulk.Newer})
	if err != nil {
		return shard.Blame(err)
	}
	j.maxOrdinal.Store(j.commit.MaxOrdinal)
	if j.begin > j.commit.MaxOrdinal {
		return fmt.Errorf("ordinal %d lies beyond the %d of the shard: %w", j.begin, j.commit.MaxOrdinal, fault.ErrCorrupt)
	}
	if j.runner.VerifyFirst {
		if err := checkShard(ctx, dir); err != nil {
			return err
		}
	}
	mayStart := func() error { return j.lease.MayStart(work) }
	if j.out, err = j.runner.Destination.Open(ctx, j.id, mayStart); err != nil {
		return err
	}
	j.memory = &allowance{budget: j.runner.Memory, most: j.runner.MaxBody, longest: j.runner.MaxDocument}
	read := lucene.ReadOptions{
		From: j.begin, To: j.commit.MaxOrdinal, NestedTerms: j.entry.Locator.NestedTerms(), Values: j.entry.needsValues(j.builder), Memory: j.memory, Versions: existing == bulk.Newer,
	}
	opts := j.runner.Bulk
	j.sent = &sent{next: j.out}
	opts.Sender, opts.Recorder = j.sent, j.runner.Failed
	if trial := j.entry.Trial; trial != nil {
		j.sampled = newSample(j.commit, read, trial.Documents)
		j.trying = &trying{Recorder: j.runner.Failed, next: j.sent, now: func() time.Duration { return j.runner.Clock.Read().Mono }, classes: map[int64]string{}}
		j.reader, opts.Sender, opts.Recorder = j.sampled, j.trying, j.trying
	} else {
		j.reader = j.commit.Reader(read)
	}
	opts.From, opts.Index, opts.Shard, opts.EmitType = j.begin, j.entry.Naming.Index, j.id.Shard, j.entry.Naming.Emit
	opts.MayStart, opts.Existing = mayStart, existing
	if existing == bulk.Keep {
		if opts.SentBelow, err = j.lease.SentBelow(ctx); err != nil {
			return err
		}
		j.noted = &opts.SentBelow
	}
	if j.alone != nil || !j.runner.Destination.Durable() {
		opts.MaxInFlight = 1 // a file is written in order, and ends at the watermark
	}
	j.loader = bulk.New(opts)
	j.loaded.Store(j.loader)
	return nil
}

// checkShard reads a whole shard and checks it, before anything of it is sent.
func checkShard(ctx context.Context, dir lucene.Directory) error {
	commit, err := lucene.Open(ctx, dir, lucene.Options{VerifyAll: true})
	if err != nil {
		return err
	}
	r := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal})
	defer r.Close()
	for {
		if _, err := r.Next(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("verify first: %w", err)
		}
	}
}

// run opens the shard and copies it until it ends (nil), stopping says so (errStop), or something fails.
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
		return errStop // whatever else is wrong, the next holder finds it too
	}
	return err
}

// settleBlame comes before any work on an item whose former holders died: their ordinal is known by now, or it will be
// when this holder dies too.
func (j *job) settleBlame() error {
	if d := j.lease.Condemned(); d != nil {
		return d
	}
	if !j.lease.Alone() {
		return nil
	}
	j.alone = &alone{records: part, from: j.begin, last: j.begin} // the first part begins with the first record
	j.log.Warn("item is worked on alone", "attempts", j.lease.Item.Attempts)
	return nil
}

// copy moves documents until the shard ends, ctx ends, or something fails.
func (j *job) copy(ctx context.Context) error {
	documents := newDocuments(j.entry, j.id.Shard, j.runner.Edit, j.builder)
	documents.memory, j.memory.edits = j.memory, documents.editor != nil || documents.single != nil
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.alone.stand(ctx, j); err != nil {
			return err
		}
		rec, err := j.reader.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			j.loader.Advance(j.commit.MaxOrdinal)
			return j.loader.Flush(ctx)
		case err != nil:
			return j.shard.Blame(err)
		}
		now := j.runner.Clock.Read().Mono
		j.lastRead.Store(int64(now))
		if j.firstRead.Load() == 0 {
			j.firstRead.Store(int64(now))
		}
		if j.alone != nil {
			j.alone.last = rec.Ordinal
		}
		if err := j.take(ctx, rec, documents); err != nil {
			return err
		}
		if j.sampled != nil && j.sampled.warms() {
			if err := j.loader.Flush(ctx); err != nil {
				return err
			}
		}
	}
}

// take passes one record on: to the bulk body, or to the failed documents. A long one is sent at once.
func (j *job) take(ctx context.Context, rec *lucene.Record, documents *documents) error {
	d, keep, failure, err := documents.of(ctx, rec)
	if keep && rec.Giant {
		if limit := j.memory.request(ctx); limit > 0 && int64(len(d.Source)) > limit {
			failure = documents.tooLarge(&d, fmt.Sprintf("the target takes requests of %d", limit))
		}
	}
	switch {
	case err != nil:
		return j.shard.Blame(err)
	case failure != nil:
		err = j.loader.Fail(ctx, *failure)
	case !keep:
		err = j.loader.Filter(ctx, d.Ordinal)
	default:
		if err = j.noteSent(ctx, d.Ordinal); err == nil {
			err = j.loader.Add(ctx, &d)
		}
	}
	if err == nil && rec.Giant {
		documents.forget(rec)
		err = j.loader.SendNow(ctx, j.memory.handOver())
	}
	return err
}

// sentAhead is how many ordinals ahead it is recorded that documents may have been sent: that many are compared with
// the target at most after a holder has died.
const sentAhead = 100_000

// noteSent records, before a document can be sent, that it may have been; only where that matters.
func (j *job) noteSent(ctx context.Context, ordinal int64) error {
	if j.noted == nil || ordinal < *j.noted {
		return nil
	}
	below := min(ordinal+sentAhead, j.commit.MaxOrdinal)
	if err := j.lease.NoteSent(ctx, below); err != nil {
		return err
	}
	j.noted = &below
	return nil
}

// progress is what the job did so far.
func (j *job) progress() Progress {
	l := j.loaded.Load()
	if l == nil {
		return Progress{}
	}
	watermark, _ := l.Settled()
	c := l.Counts()
	p := Progress{Documents: c.Indexed + c.Kept + c.Failed, Bytes: c.Bytes, Failed: c.Failed, Resent: c.Resent, Retries: c.Retries}
	if limit := j.maxOrdinal.Load(); limit > 0 && j.id.Shard < len(j.entry.Bytes) {
		p.ShardBytes = int64(float64(j.entry.Bytes[j.id.Shard]) * float64(watermark-j.begin) / float64(limit))
	}
	return p
}

// kept returns how many documents the target had already and kept.
func (j *job) kept() int64 {
	if l := j.loaded.Load(); l != nil {
		return l.Counts().Kept
	}
	return 0
}

// settled gives the watermark and the counts of everything from the begin up to it.
func (j *job) settled() (int64, cms.Counts) {
	w, c := j.loader.Settled()
	return w, cms.Counts{
		Ordinals: w - j.begin, Live: c.Live, Indexed: c.Indexed, Failed: c.Failed,
		Filtered: c.Filtered, Bytes: c.Bytes, Reduced: c.Reduced, Rebuilt: c.Rebuilt, KeptLast: c.KeptLast, Kept: c.Kept,
	}
}

// work is what is stored with the item: counts, and the checksums of the file ranges
// that this acquisition owns up to the watermark.
func (j *job) work(watermark int64, counts cms.Counts) (cms.Work, error) {
	w := cms.Work{Counts: counts}
	first := time.Duration(j.firstRead.Load())
	if first != 0 {
		w.Setup = first - j.acquired
	}
	v := verification{Files: j.reader.Checks(watermark), NotVerified: j.commit.Unverified, Ordinals: j.commit.MaxOrdinal}
	if j.trying != nil { // no file is read whole
		t := j.trying.tried(watermark)
		t.Scanned, t.Setup = j.sampled.looked(watermark), w.Setup.Seconds()
		if first != 0 {
			t.Copying = (j.runner.Clock.Read().Mono - first).Seconds()
		}
		v.NotVerified, v.Tried = nil, &t
	}
	var err error
	if w.Checks, err = json.Marshal(v); err != nil {
		return cms.Work{}, fmt.Errorf("checksums of %s: %w", j.id.Name(), err)
	}
	return w, nil
}

// verification is what one acquisition knows of the checksums of its shard's files. It is
// stored with the item and put together with those of the other items at the end.
type verification struct {
	Files       []lucene.Check `json:"files"`
	NotVerified []string       `json:"not_verified,omitempty"`
	Ordinals    int64          `json:"ordinals,omitempty"` // of the whole shard, for the progress of its items
	Tried       *Tried         `json:"tried,omitempty"`    // in a trial run
}

// reportInterval is how often it is looked at what of a running lease is to be recorded or asked.
const reportInterval = 500 * time.Millisecond

// guardInterval is how often a running lease asks whether the target is still the same, in a small fleet.
const guardInterval = 30 * time.Second

// shutdownTime bounds the time from a signal to the end of the work: a supervisor kills after 30 s.
const shutdownTime = 20 * time.Second

// errNoTime ends the work when a hand-off after a signal takes too long, as with a target that hangs.
var errNoTime = errors.New("no time left to hand off after the signal")

// looked returns what the guard of the lease looks at besides the deadline: the trigger, at which the work stops, and the
// time since stopped was closed by a signal, which is bounded. It sends no request.
func (j *job) looked(stopped <-chan struct{}, trigger context.CancelFunc) func() error {
	var signalled time.Duration // since when stopped is closed; 0 before
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
		if now-signalled < shutdownTime {
			return nil
		}
		return errNoTime
	}
}

// report records progress at intervals, and checks at intervals that lease and target are still ours
// (after a pause of the process at once), until ctx ends.
func (j *job) report(ctx context.Context, end context.CancelCauseFunc) {
	begin := j.runner.Clock.Read().Mono
	recorded, guarded := begin, begin
	moved := false // whether the first progress is recorded: it tells a slow shard from a deadly one
	for j.runner.Clock.Sleep(ctx, reportInterval) == nil {
		now := j.runner.Clock.Read().Mono
		err := j.lease.MayStart(ctx)
		// Often at first: whatever kills workers early must not undo all they did.
		due := min(j.runner.recordEvery(), max((now-begin)/2, j.runner.recordEvery()/16))
		if err == nil && (now-recorded >= j.runner.recordEvery() || moved && now-recorded >= due || !moved && j.moved()) {
			recorded, moved = now, moved || j.moved()
			err = j.record(ctx)
		}
		if err == nil && now-guarded >= j.runner.guardEvery() {
			guarded = now
			err = j.guard(ctx)
		}
		if errors.Is(err, fault.ErrLeaseLost) || errors.Is(err, cms.ErrStoreGone) || errors.Is(err, ErrTargetReplaced) || errors.Is(err, metadata.ErrRollover) {
			end(err)
			return
		}
	}
}

// moved says whether there is progress that can be recorded.
func (j *job) moved() bool {
	l := j.loaded.Load()
	return l != nil && l.Watermark() > j.begin
}

// record stores the watermark with the item, or how far the work is where it is not durable. It is a
// convenience: an outage of the store is no reason to stop before the lease ends.
func (j *job) record(ctx context.Context) error {
	if j.loaded.Load() == nil || j.lease.Alone() { // alone, the work itself records where it stands
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
	if j.memory != nil {
		defer j.memory.close()
	}
	if j.reader != nil {
		if err := j.reader.Close(); err != nil {
			j.log.Debug("close reader", "error", err)
		}
	}
}
