package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// differenceMemory bounds the memory for finding the changed documents of a shard, except for its sets of ordinals, in bytes.
const differenceMemory = 32 << 20

// changedReading reads the changes of a shard since the former snapshot of its chain: first the new and changed documents, by their
// ordinals in the commit of the snapshot, then the documents to be deleted. Ordinals of the former commit follow the last one of the
// snapshot's commit, so that the order is the same for every holder of a lease.
type changedReading struct {
	*shardReading                 // the part that is being read
	parts         []*shardReading // the snapshot's shard, then former shards
	at            int
	end           int64
	changes       atomic.Pointer[difference.Totals] // nil: unknown so far, or all documents are sent
	whole         bool                              // all documents of the shard are sent
}

// openChanged opens the changes of an item's shard. now is the shard in the snapshot.
func (s shardSource) openChanged(ctx context.Context, id cms.ItemID, now *openShard, opts *bulk.Options) (engine.Reading, error) {
	x := &changedReading{}
	memory := &allowance{budget: s.reader.Memory, most: s.reader.MaxBody, longest: s.reader.MaxDocument}
	memory.edits = now.documents.editor != nil || now.documents.single != nil
	add := func(o *openShard, only difference.Ordinals) {
		part := &shardReading{openShard: o, memory: memory}
		o.documents.base, o.documents.log = x.end, s.reader.Log
		part.reader = o.only(max(opts.From-x.end, 0), only, memory)
		x.parts, x.end = append(x.parts, part), x.end+o.commit.MaxOrdinal
	}
	var former []*openShard
	for n := id.Shard; n < s.entry.Since.Shards; n += s.entry.Shards {
		was, err := s.openFormer(ctx, n)
		if errors.Is(err, snapshot.ErrShardMissing) { // none of its documents has arrived
			continue
		}
		if err != nil {
			return nil, err
		}
		former = append(former, was)
	}
	if x.whole = s.entry.Since.Another || len(former) != 1; x.whole {
		add(now, difference.Every(now.commit.MaxOrdinal))
		for _, was := range former { // also for a new target index, so that it rejects late requests of former rounds
			add(was, difference.Every(was.commit.MaxOrdinal))
		}
	} else {
		d, err := s.changes(ctx, id, former[0], now, opts.From > 0)
		if err != nil {
			return nil, err
		}
		add(now, d.Changed)
		if x.whole = d.Every; !x.whole {
			x.parts[0].reader = &pairing{recordReader: x.parts[0].reader, with: d, totals: &x.changes}
		}
		gone := d.Documents.Deleted
		if now.documents.editor != nil { // rules may have sent the former versions to other indices
			gone = d.Gone
		}
		add(former[0], gone)
	}
	x.shardReading = x.parts[0]
	return x, nil
}

// openFormer opens a shard of the former snapshot, whose documents are to be deleted.
func (s shardSource) openFormer(ctx context.Context, number int) (*openShard, error) {
	e := s.entry
	e.Locator = e.Since.Locator
	was := &openShard{entry: e, number: number}
	if err := was.open(ctx, s.reader.Repo, s.reader.Edit); err != nil {
		return nil, err
	}
	if s.reader.VerifyFirst {
		if err := checkShard(ctx, was.dir); err != nil {
			return nil, was.shard.Blame(err)
		}
	}
	was.documents.gone, was.documents.version = true, 2*e.Version
	return was, nil
}

// pairing passes the changed documents of a shard, as they are read, to the search for deleted former documents. Deletions are read after
// all changed documents.
type pairing struct {
	recordReader
	with   *difference.Pairing
	totals *atomic.Pointer[difference.Totals]
}

// Next returns the next changed document.
func (p *pairing) Next(ctx context.Context) (*lucene.Record, error) {
	rec, err := p.recordReader.Next(ctx)
	switch {
	case err == nil:
		p.with.See(rec)
	case errors.Is(err, io.EOF):
		p.with.End()
		p.totals.Store(&p.with.Totals)
	}
	return rec, err
}

// changes returns the documents of a shard that changed between the former commit of an index and its current one. With complete, it reads
// all changed documents itself, because an earlier holder of the item sent some of them.
func (s shardSource) changes(ctx context.Context, id cms.ItemID, was, now *openShard, complete bool) (*difference.Pairing, error) {
	r, err := difference.New(was.commit, now.commit, differenceMemory)
	var d *difference.Pairing
	if err == nil {
		d, err = r.Pair(ctx, complete)
	}
	whole := (*difference.Whole)(nil)
	if errors.As(err, &whole) {
		s.reader.Log.InfoContext(ctx, "sequence numbers do not show what changed: the contents of documents are compared", "index", id.Index, "shard", id.Shard, "reason", whole.Reason)
		d, err = difference.NewByContents(was.commit, now.commit, differenceMemory, s.entry.Lacking.Source).Pair(ctx, complete)
	}
	if errors.As(err, &whole) {
		s.reader.Log.WarnContext(ctx, "nothing shows what changed: the whole shard is sent, and former documents that it lacks are deleted", "index", id.Index, "shard", id.Shard, "reason", whole.Reason)
		return difference.Everything(was.commit, now.commit), nil
	}
	if err != nil {
		return nil, fmt.Errorf("what changed since snapshot %s: %w", s.entry.Since.Locator.SnapshotName, now.shard.Blame(err))
	}
	return d, nil
}

// only returns a reader of the documents in a set of ordinals, from one on.
func (s *openShard) only(from int64, only difference.Ordinals, memory *allowance) recordReader {
	o := s.options(from, s.commit.MaxOrdinal, memory)
	if !o.Values {
		o.Only = only.Any
		return s.commit.Reader(o)
	}
	return selected{s.commit.Reader(o), only}
}

// selected reads all documents and returns a selection, because rebuilt sources need the data in between.
type selected struct {
	*lucene.Reader
	only difference.Ordinals
}

// Next returns the next selected document.
func (r selected) Next(ctx context.Context) (*lucene.Record, error) {
	for {
		rec, err := r.Reader.Next(ctx)
		if err != nil || r.only.Any(rec.Ordinal, rec.Ordinal+1) {
			return rec, err
		}
	}
}

// Next passes on records of the current part, and moves to the next part at its end.
func (x *changedReading) Next(ctx context.Context, to *engine.Sink, most int) error {
	for {
		err := x.shardReading.Next(ctx, to, most)
		if !errors.Is(err, io.EOF) || x.at+1 == len(x.parts) {
			return err
		}
		x.at++
		x.shardReading = x.parts[x.at]
	}
}

// End returns the ordinal after the last one of the last part.
func (x *changedReading) End() int64 { return x.end }

// Checks returns the size of the difference once it is known, and nil before. No file is read completely.
func (x *changedReading) Checks(int64, time.Duration, time.Duration) (json.RawMessage, error) {
	changes := x.changes.Load()
	if changes == nil && !x.whole {
		return nil, nil
	}
	return json.Marshal(Checks{Ordinals: x.end, Changes: changes})
}

// Close closes the readers and releases the memory.
func (x *changedReading) Close() (err error) {
	for _, p := range x.parts {
		err = errors.Join(err, p.Close())
	}
	return err
}
