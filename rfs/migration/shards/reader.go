package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Reader reads the shards of a snapshot. All leases of a process share one.
type Reader struct {
	Repo        snapshot.Repository
	Log         *slog.Logger
	VerifyFirst bool
	// Edit returns the editor for documents of an index of the snapshot; nil if they are not edited. Edit itself may be nil.
	Edit func(index string) DocumentEditor
	// Merges states that rules send documents of one index of the snapshot to target indices of others.
	Merges bool
	// Memory bounds the memory of long documents over all leases of the process; nil: no bound.
	Memory *budget.Budget
	// MaxBody returns the maximum request body of the destination in bytes; 0 if it is unknown. nil: no limit.
	MaxBody func(ctx context.Context) int64
	// MaxDocument is the limit of sources in bytes; 0: DefaultMaxDocument.
	MaxDocument int64
	// Manifests are the manifests that this process read while planning; nil: each lease reads its own.
	Manifests *plan.Manifests
	// Helpers decompress shards concurrently with the goroutines of their leases; nil: only these goroutines do.
	Helpers *lucene.Helpers
}

// DocumentEditor applies the user's rules to documents. It is used by one goroutine.
type DocumentEditor interface {
	// Edit changes index and source; keep is false if the document is left out. After an error, which means that the source cannot be
	// parsed, the document is unchanged. The results are valid until the next Edit. A source that becomes longer than most bytes is a
	// doc.ErrTooLong; 0: no limit.
	Edit(d *doc.Document, most int64) (keep bool, err error)
	// Forget releases the large buffers of the last document.
	Forget()
}

// Edits returns the editor of the documents of each index; nil for an index whose documents no rule changes.
func Edits(r *rules.Set) func(index string) DocumentEditor {
	return func(index string) DocumentEditor {
		if e := r.Documents(index); e != nil {
			return e
		}
		return nil
	}
}

// Source returns the source of an index's items up to the ordinal end; 0: the end of the shard. ahead holds shards that may already be
// open. near is called, possibly several times, when little of the item remains to be read. Both may be nil.
func (r *Reader) Source(entry plan.Entry, end int64, ahead *Ahead, near func()) engine.Source {
	return shardSource{reader: r, entry: entry, end: end, ahead: ahead, near: near}
}

// shardSource reads the live documents of the shards of an index.
type shardSource struct {
	reader *Reader
	entry  plan.Entry
	end    int64
	ahead  *Ahead // the shard may already be open there
	near   func() // called, possibly several times, when little of the item remains to be read; nil: not called
}

// Bytes returns the repository size of the shard in bytes; of a part, in proportion to its end.
func (s shardSource) Bytes(id cms.ItemID) int64 {
	if id.Shard >= len(s.entry.Bytes) {
		return 0
	}
	bytes := s.entry.Bytes[id.Shard]
	if ends := s.entry.Ends[id.Shard]; len(ends) > 0 {
		return int64(float64(bytes) * float64(s.end) / float64(ends[len(ends)-1]))
	}
	return bytes
}

// live returns the number of live documents of the whole shard, nested ones included, as counted in its commit.
func (s shardSource) live(ctx context.Context, id cms.ItemID) (int64, error) {
	shard, err := snapshot.OpenShard(ctx, s.reader.Repo, s.entry.Locator, id.Shard)
	if err != nil {
		return 0, err
	}
	n, err := lucene.CountLive(ctx, shard.Directory())
	if err != nil {
		return 0, shard.Blame(err)
	}
	return n, nil
}

// FailedChecks adds the number of documents in the shard to the checks of a failed item.
func (s shardSource) FailedChecks(ctx context.Context, id cms.ItemID, checks json.RawMessage) (json.RawMessage, error) {
	if s.entry.Since != nil { // only changes of the shard were to be sent
		return checks, nil
	}
	var v Checks
	if len(checks) > 0 {
		if err := json.Unmarshal(checks, &v); err != nil {
			return nil, fmt.Errorf("checksums of %s: %w", id.Name(), err)
		}
	}
	var err error
	v.Live, err = s.live(ctx, id)
	b, merr := json.Marshal(v)
	if merr != nil || v.Live == 0 && v.Ordinals == 0 {
		b = nil
	}
	return b, errors.Join(err, merr)
}

// endIn returns the end of an item in a commit. It returns a fault.ErrCorrupt if the shard was split differently or is another one.
func (s shardSource) endIn(id cms.ItemID, commit *lucene.Commit) (int64, error) {
	ends := s.entry.Ends[id.Shard]
	switch {
	case s.end == 0 && len(ends) == 0:
		return commit.MaxOrdinal, nil
	case !slices.Contains(ends, s.end) || ends[len(ends)-1] != commit.MaxOrdinal:
		return 0, fmt.Errorf("%s ends at %d, the parts of its shard at %v, the shard at %d: %w", id.Name(), s.end, ends, commit.MaxOrdinal, fault.ErrCorrupt)
	}
	return s.end, nil
}

// nearFrom returns the ordinal from which at most AheadBytes remain to be read before end, in a shard with this number of ordinals.
func (s shardSource) nearFrom(id cms.ItemID, ordinals, end int64) int64 {
	if id.Shard >= len(s.entry.Bytes) || s.entry.Bytes[id.Shard] <= AheadBytes {
		return 0
	}
	return end - int64(float64(ordinals)*AheadBytes/float64(s.entry.Bytes[id.Shard]))
}

// shardReading reads a shard for an item.
type shardReading struct {
	*openShard
	end     int64 // ordinal after the last one
	reader  recordReader
	sampled *sample // the reader, in a trial run
	trying  *trying // set in a trial run
	memory  *allowance
	near    func() // shardSource.near; nil once it was called
	last    int64  // ordinal from which near is called
}

// Open opens the shard and everything needed to read it.
func (s shardSource) Open(ctx context.Context, id cms.ItemID, opts *bulk.Options) (engine.Reading, error) {
	r := s.reader
	opts.Existing = s.entry.Existing(opts.Existing)
	o := s.ahead.take(ctx, id, s.entry, opts.From)
	if o == nil {
		o = newOpenShard(r, s.entry, id.Shard, opts.From, opts.Existing)
		if err := o.open(ctx, r.Repo, r.Edit); err != nil {
			return nil, err
		}
	}
	opts.Own, opts.Targets, opts.Distinct = s.entry.Own(), s.entry.Naming.Targets(), s.entry.Distinct() && !r.Merges
	opts.Index, opts.Shard, opts.EmitType = s.entry.Naming.Index, id.Shard, s.entry.Naming.Emit
	if r.VerifyFirst {
		if err := checkShard(ctx, o.dir); err != nil {
			return nil, errors.Join(o.shard.Blame(err), o.commit.Close())
		}
	}
	if s.entry.Since != nil {
		return s.openChanged(ctx, id, o, opts)
	}
	end, err := s.endIn(id, o.commit)
	if err != nil {
		return nil, errors.Join(err, o.commit.Close())
	}
	x := &shardReading{openShard: o, end: end, near: s.near, last: s.nearFrom(id, o.commit.MaxOrdinal, end), memory: &allowance{budget: r.Memory, most: r.MaxBody, longest: r.MaxDocument}}
	o.documents.log = r.Log
	x.memory.edits = o.documents.editor != nil || o.documents.single != nil
	read := o.options(opts.From, end, x.memory)
	if s.entry.Trial != nil {
		x.sampled = newSample(o.commit, read, s.entry.Trial.Documents)
		x.reader = x.sampled
	} else {
		read.Helpers = r.Helpers
		x.reader = o.commit.Reader(read)
	}
	return x, nil
}

// Wrap records the failures of a trial run.
func (x *shardReading) Wrap(opts *bulk.Options) {
	if x.entry.Trial == nil {
		return
	}
	x.trying = &trying{Recorder: opts.Recorder, classes: map[int64]string{}}
	opts.Recorder = x.trying
}

// Next passes records on to the bulk body or to the failed documents. A long record is sent immediately.
func (x *shardReading) Next(ctx context.Context, to *engine.Sink, most int) error {
	for n := range most {
		rec, err := x.reader.Next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return io.EOF
			}
			return x.shard.Blame(err)
		}
		if n == 0 {
			to.Read(rec.Ordinal + x.documents.base)
			if x.near != nil && rec.Ordinal >= x.last {
				x.near()
				x.near = nil
			}
		}
		if err := x.pass(ctx, rec, to); err != nil {
			return err
		}
	}
	return nil
}

// pass passes one record on.
func (x *shardReading) pass(ctx context.Context, rec *lucene.Record, to *engine.Sink) error {
	d, keep, failure, err := x.documents.of(ctx, rec)
	if keep && rec.Giant {
		if limit := x.memory.request(ctx); limit > 0 && int64(len(d.Source)) > limit {
			failure = x.documents.tooLarge(d, fmt.Sprintf("the target takes requests of %d", limit))
		}
	}
	switch {
	case err != nil:
		return x.shard.Blame(err)
	case failure != nil:
		err = to.Fail(ctx, *failure)
	case !keep:
		err = to.Filter(ctx, d.Ordinal)
	default:
		err = to.Add(ctx, d)
	}
	if err == nil && rec.Giant {
		x.documents.forget(rec)
		err = to.SendNow(ctx, x.memory.handOver())
	}
	return err
}

// End returns the end of the item; without one, the number of ordinals of the shard.
func (x *shardReading) End() int64 { return x.end }

// Checks returns the checksums of the file ranges that this lease owns up to the watermark.
func (x *shardReading) Checks(watermark int64, setup, copying time.Duration) (json.RawMessage, error) {
	v := Checks{Files: x.reader.Checks(watermark), NotVerified: x.commit.Unverified, Ordinals: x.commit.MaxOrdinal}
	if x.trying != nil { // no file is read completely
		v.NotVerified = nil
		v.Tried = &Tried{Scanned: x.sampled.looked(watermark), Setup: setup.Seconds(), Copying: copying.Seconds(), Classes: x.trying.classesBelow(watermark)}
	}
	return json.Marshal(v)
}

// Close closes the readers and releases the memory.
func (x *shardReading) Close() error {
	defer x.memory.close()
	return x.reader.Close()
}

// checkShard reads and verifies a whole shard before any of its documents is sent.
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

// Checks holds the checksums of a shard's files that one lease has computed. They are stored with the item and combined with the checks of
// the other items at the end.
type Checks struct {
	Files       []lucene.Check `json:"files"`
	NotVerified []string       `json:"not_verified,omitempty"`
	Ordinals    int64          `json:"ordinals,omitempty"` // ordinals of the whole shard, for the progress of its items
	Live        int64          `json:"live,omitempty"`     // Lucene documents of the whole shard of a failed item; 0: unknown
	Tried       *Tried         `json:"tried,omitempty"`    // in a trial run
	// Changes counts the changes of the whole shard since the former snapshot; nil: all documents are sent.
	Changes *difference.Totals `json:"changes,omitempty"`
}
