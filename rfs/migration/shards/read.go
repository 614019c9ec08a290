package shards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// openShard is a shard of the snapshot whose documents can be read.
type openShard struct {
	entry    plan.Entry
	number   int
	parts    bool // it is not read sequentially, so read-ahead is minimal
	begin    bool // it is read from its first ordinal, so its documents are requested while it is opened
	versions bool // read versions of documents, too
	ahead    bool // it is opened before its item is leased
	kept     *plan.Manifests

	// Set by open.
	shard     *snapshot.Shard
	dir       lucene.Directory
	commit    *lucene.Commit
	documents *documents
	values    bool // doc values are needed to rebuild sources
}

// newOpenShard returns the shard of an item, to be opened by open and read from an ordinal on.
func newOpenShard(r *Reader, entry plan.Entry, number int, from int64, existing bulk.Existing) *openShard {
	return &openShard{
		entry: entry, number: number, parts: entry.Trial != nil, versions: entry.Existing(existing) == bulk.Newer, kept: r.Manifests,
		begin: from == 0 && entry.Trial == nil && entry.Since == nil && !r.VerifyFirst,
	}
}

// open opens the shard and everything needed to read it; edit may be nil.
func (s *openShard) open(ctx context.Context, repo snapshot.Repository, edit func(index string) DocumentEditor) (err error) {
	if s.shard = s.kept.Take(s.entry.Locator, s.number); s.shard == nil {
		if s.shard, err = snapshot.OpenShard(ctx, repo, s.entry.Locator, s.number); err != nil {
			return err
		}
	}
	if s.dir = s.shard.Directory(); s.parts {
		s.dir = nearby{s.dir}
	}
	b, err := newBuilder(ctx, repo, s.entry) // nil: sources are stored
	if err != nil {
		return err
	}
	s.values = needsValues(s.entry, b)
	s.documents = newDocuments(s.entry, s.number, edit, b)
	o := lucene.Options{Values: s.values || s.versions, Begin: s.begin, Parts: s.entry.Since != nil}
	if s.ahead {
		if len(s.shard.Files) > aheadFiles {
			return errNotAhead
		}
		o.Held = aheadHeld
	}
	if s.commit, err = lucene.Open(ctx, s.dir, o); err != nil {
		return s.shard.Blame(err)
	}
	return nil
}

// options returns the options for reading the ordinals [from, to). memory bounds long documents.
func (s *openShard) options(from, to int64, memory *allowance) lucene.ReadOptions {
	s.documents.memory = memory
	return lucene.ReadOptions{From: from, To: to, NestedTerms: s.entry.Locator.NestedTerms(), Values: s.values, Memory: memory, Versions: s.versions}
}

// Documents receives the documents of a shard as a migration processes them. Arguments of the functions are only valid during the call.
type Documents struct {
	Send   func(d *doc.Document) error
	Filter func(d *doc.Document) error // left out by rules
	Fail   func(f *doc.Failure) error  // cannot be sent
	Select func(ordinal int64) bool    // nil: all; others are read but not passed on
	From   int64                       // first ordinal

	// Versions sets the versions of documents.
	Versions bool

	Memory      *budget.Budget  // bounds the memory of long documents; nil: no bound
	MaxDocument int64           // limit of sources in bytes; 0: DefaultMaxDocument
	Helpers     *lucene.Helpers // decompress concurrently with the caller; nil: only the caller decompresses
}

// Read reads a shard of the snapshot as a migration does, from the ordinal to.From to its end, and passes on every live root document as it
// would be sent. edit may be nil. Damage is a fault.ErrCorrupt with its location.
func Read(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard int, edit func(index string) DocumentEditor, to Documents) error {
	s, err := Open(ctx, repo, e, shard, edit, to)
	if err != nil {
		return err
	}
	return s.Read(ctx, to.From, s.commit.MaxOrdinal)
}

// Reading is a shard that is read outside of a job.
type Reading struct {
	*openShard
	to Documents
}

// Open opens a shard; Reading.Read reads ranges of it.
func Open(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard int, edit func(index string) DocumentEditor, to Documents) (*Reading, error) {
	s := &openShard{entry: e, number: shard, parts: to.Select != nil, versions: to.Versions && e.Version == 0}
	if err := s.open(ctx, repo, edit); err != nil {
		return nil, err
	}
	return &Reading{s, to}, nil
}

// MaxOrdinal returns the ordinal after the last document of the shard.
func (s *Reading) MaxOrdinal() int64 { return s.commit.MaxOrdinal }

// Read passes on the documents of the ordinals [from, to).
func (s *Reading) Read(ctx context.Context, from, to int64) error {
	memory := &allowance{budget: s.to.Memory, longest: s.to.MaxDocument}
	defer memory.close()
	o := s.options(from, to, memory)
	o.Helpers = s.to.Helpers
	r := s.commit.Reader(o)
	defer r.Close() //nolint:errcheck // nothing was written
	return s.deliver(ctx, r, memory, s.to)
}

// ReadChanged passes on what a round sends from a shard: the documents that changed since the former snapshot, and deletions of documents
// that no longer exist. Documents.From counts the ordinals of the shard, followed by the ordinals of the former shards.
func ReadChanged(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard int, edit func(index string) DocumentEditor, log *slog.Logger, to Documents) (err error) {
	r := &Reader{Repo: repo, Edit: edit, Memory: to.Memory, MaxDocument: to.MaxDocument, Log: log}
	x, err := r.Source(e, 0, nil, nil).Open(ctx, cms.ItemID{Index: e.Locator.IndexName, Shard: shard}, &bulk.Options{From: to.From})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	changed, ok := x.(*changedReading)
	if !ok {
		return fmt.Errorf("index %s has no former snapshot: %w", e.Locator.IndexName, fault.ErrConfig)
	}
	for _, part := range changed.parts {
		if err := part.deliver(ctx, part.reader, part.memory, to); err != nil {
			return err
		}
	}
	return nil
}

// deliver passes on the documents of a reader.
func (s *openShard) deliver(ctx context.Context, r recordReader, memory *allowance, to Documents) error {
	for {
		rec, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return s.shard.Blame(err)
		}
		if to.Select != nil && !to.Select(rec.Ordinal) {
			continue
		}
		d, keep, failure, err := s.documents.of(ctx, rec)
		switch {
		case err != nil:
			err = s.shard.Blame(err)
		case failure != nil:
			err = to.Fail(failure)
		case !keep:
			err = to.Filter(d)
		default:
			err = to.Send(d)
		}
		if err != nil {
			return err
		}
		if rec.Giant {
			s.documents.forget(rec)
			memory.drop()
		}
	}
}

// Borders returns the ends of the parts into which a shard can be split; the last one is the end of the shard. nil: it is not split.
func Borders(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard, parts int) ([]int64, error) {
	s := &openShard{entry: e, number: shard, parts: true}
	if err := s.open(ctx, repo, nil); err != nil {
		return nil, err
	}
	ends, err := s.commit.Borders(ctx, parts)
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	return append(ends, s.commit.MaxOrdinal), nil
}

// Count returns the number of live Lucene documents of a shard of the snapshot, nested ones included.
func Count(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard int) (int64, error) {
	s, err := snapshot.OpenShard(ctx, repo, e.Locator, shard)
	if err != nil {
		return 0, err
	}
	commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{})
	if err != nil {
		return 0, s.Blame(err)
	}
	return commit.LiveDocs, nil
}

// needsValues reports whether more than the stored source of a document is read.
func needsValues(e plan.Entry, b *builder) bool { return b != nil || e.Naming.Join != nil }
