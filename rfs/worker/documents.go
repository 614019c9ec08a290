package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// documents makes the documents of one shard as they are sent: decoded, named and edited by the user's rules. It keeps
// buffers and is used by one goroutine.
type documents struct {
	shard   int
	names   *namer
	decoder *doc.Decoder
	builder *builder       // nil: sources are stored
	editor  DocumentEditor // nil: documents stay as they are
	single  *doc.KeepLast  // nil: documents with duplicate keys stay as they are
	joiner  *joiner        // nil: documents get no join field
	memory  *allowance     // nil: long documents are not bounded
}

// newDocuments prepares the documents of a shard of an index; edit may be nil.
func newDocuments(e Entry, shard int, edit func(index string) DocumentEditor, b *builder) *documents {
	d := &documents{shard: shard, names: newNamer(e.Naming), decoder: doc.NewDecoder(e.Locator.IndexName, shard), builder: b, joiner: newJoiner(e.Naming.Join)}
	if edit != nil {
		d.editor = edit(e.Locator.IndexName)
	}
	if e.KeepLast {
		d.single = &doc.KeepLast{}
	}
	d.decoder.SetType(e.Locator.Type)
	d.decoder.SendOriginals(e.Originals)
	d.decoder.SetLacking(e.Lacking)
	return d
}

// of returns the document of a record; keep is false when rules leave it out. A Failure is a document that cannot be
// sent. The document is borrowed until the next call or the reader's next step. An error concerns the whole shard.
func (s *documents) of(ctx context.Context, rec *lucene.Record) (d doc.Document, keep bool, failure *doc.Failure, err error) {
	if err := s.builder.build(ctx, rec, s.decoder.Type); err != nil {
		return d, false, nil, err
	}
	if err := s.expand(ctx, rec); err != nil {
		return d, false, nil, err
	}
	d, failure = s.decoder.Decode(rec)
	if failure != nil {
		return d, false, failure, nil
	}
	if s.single != nil {
		d.Source, d.KeptLast = s.single.Apply(d.Source)
	}
	noObject := s.joiner.relate(ctx, rec, &d)
	if noObject != nil && !errors.Is(noObject, errNoObject) {
		return d, false, nil, noObject
	}
	if err := s.names.name(&d); err != nil {
		return d, false, nil, err
	}
	if noObject != nil {
		return d, false, s.unreadable(&d, noObject), nil
	}
	if s.editor == nil {
		return d, true, nil, nil
	}
	if keep, err = s.editor.Edit(&d); err != nil {
		return d, false, s.unreadable(&d, fmt.Errorf("the rules cannot be applied: %w", err)), nil
	}
	return d, keep, nil, nil
}

// expand asks for the memory of a source that is stored compressed and long without it.
func (s *documents) expand(ctx context.Context, rec *lucene.Record) error {
	size := doc.Expanded(rec)
	if s.memory == nil || size <= longSource {
		return nil
	}
	limit, err := s.memory.MaxSource(ctx)
	if err != nil {
		return err
	}
	if limit > 0 && size > limit {
		rec.Source, rec.HasSource, rec.Beyond = nil, false, size
		return nil
	}
	rec.Giant = true
	return s.memory.expand(ctx, size)
}

// tooLarge is a document that the target takes in no request.
func (s *documents) tooLarge(d *doc.Document, limit int64) *doc.Failure {
	return &doc.Failure{
		Index: string(d.Index), ID: string(d.ID), Type: string(d.Type), Routing: string(d.Routing), Shard: s.shard, Ordinal: d.Ordinal,
		Reason: doc.TooLarge, Detail: fmt.Sprintf("%d bytes; the target takes requests of %d", len(d.Source), limit), Source: bytes.Clone(d.Source),
	}
}

// unreadable is a document that the user's rules or a join field cannot be applied to.
func (s *documents) unreadable(d *doc.Document, err error) *doc.Failure {
	return &doc.Failure{
		Index: string(d.Index), ID: string(d.ID), Type: string(d.Type), Routing: string(d.Routing), Shard: s.shard, Ordinal: d.Ordinal,
		Reason: doc.BadSource, Detail: err.Error(), Source: bytes.Clone(d.Source),
	}
}

// Documents receives what a migration does with the documents of a shard. What it is given is borrowed until it returns.
type Documents struct {
	Send   func(d *doc.Document) error
	Filter func(d *doc.Document) error // left out by rules
	Fail   func(f *doc.Failure) error  // it cannot be sent
}

// ReadShard reads a shard of the snapshot as a migration does, from its beginning to its end, and passes on every live
// root document as it would be sent. edit may be nil. Damage is fault.ErrCorrupt with its place.
func ReadShard(ctx context.Context, repo snapshot.Repository, e Entry, shard int, edit func(index string) DocumentEditor, to Documents) error {
	s, err := snapshot.OpenShard(ctx, repo, e.Locator, shard)
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, repo, e)
	if err != nil {
		return err
	}
	commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{Values: e.needsValues(b)})
	if err != nil {
		return s.Blame(err)
	}
	r := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal, NestedTerms: e.Locator.NestedTerms(), Values: e.needsValues(b)})
	defer r.Close()
	documents := newDocuments(e, shard, edit, b)
	for {
		rec, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return s.Blame(err)
		}
		d, keep, failure, err := documents.of(ctx, rec)
		switch {
		case err != nil:
			err = s.Blame(err)
		case failure != nil:
			err = to.Fail(failure)
		case !keep:
			err = to.Filter(&d)
		default:
			err = to.Send(&d)
		}
		if err != nil {
			return err
		}
	}
}

// CountShard returns the number of live Lucene documents of a shard of the snapshot, nested ones included.
func CountShard(ctx context.Context, repo snapshot.Repository, e Entry, shard int) (int64, error) {
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
