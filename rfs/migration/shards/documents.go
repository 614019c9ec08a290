package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
)

// documents converts the records of one shard into documents as they are sent: decoded, named and edited by the user's rules. It reuses
// buffers and is used by one goroutine.
type documents struct {
	shard   int
	names   *namer
	prefix  string // prefix of the targets to which rules move documents; "" except in a trial run
	decoder *doc.Decoder
	builder *builder       // nil: sources are stored
	editor  DocumentEditor // nil: documents are not edited
	current *doc.Document
	single  *doc.KeepLast // nil: documents with duplicate keys are not changed
	joiner  *joiner       // nil: documents get no join field
	memory  *allowance    // nil: the memory of long documents is not bounded
	plain   bool          // documents are only decoded and named
	version int64         // version of every document on the target; 0: none
	gone    bool          // the documents are to be deleted
	base    int64         // added to ordinals

	log   *slog.Logger    // nil: no log
	named map[string]bool // fields whose vectors were reported
}

// newDocuments returns the documents of a shard of an index; edit may be nil.
func newDocuments(e plan.Entry, shard int, edit func(index string) DocumentEditor, b *builder) *documents {
	d := &documents{shard: shard, names: newNamer(e.Naming), decoder: doc.NewDecoder(e.Locator.IndexName, shard), builder: b, joiner: newJoiner(e.Naming.Join)}
	if edit != nil {
		d.editor = edit(e.Locator.IndexName)
	}
	if e.Trial != nil {
		d.prefix = e.Trial.Prefix
	}
	if e.KeepLast {
		d.single = &doc.KeepLast{}
	}
	d.plain = d.builder == nil && d.editor == nil && d.single == nil && d.joiner == nil
	d.decoder.SetType(e.Locator.Type)
	d.decoder.SendOriginals(e.Originals)
	d.decoder.SetLacking(e.Lacking)
	if e.Version != 0 {
		d.version = 2*e.Version + 1
	}
	return d
}

// of returns the document of a record; keep is false if rules leave it out. A Failure is a document that cannot be sent. The document is
// valid until the next call or the reader's next step. An error concerns the whole shard.
func (s *documents) of(ctx context.Context, rec *lucene.Record) (d *doc.Document, keep bool, failure *doc.Failure, err error) {
	d, keep, failure, err = s.made(ctx, rec)
	if s.version == 0 || err != nil {
		return d, keep, failure, err
	}
	if failure != nil {
		failure.Ordinal += s.base
		if s.gone { // the document could not be sent as new either
			return &doc.Document{Ordinal: failure.Ordinal}, false, nil, nil
		}
		failure.Version = s.version
		return d, false, failure, nil
	}
	d.Version, d.Ordinal = s.version, d.Ordinal+s.base
	if s.gone {
		d.Delete, d.Source = true, nil
	}
	return d, keep, nil, nil
}

// made returns the document of a record, without the versions and deletions of a chain.
func (s *documents) made(ctx context.Context, rec *lucene.Record) (d *doc.Document, keep bool, failure *doc.Failure, err error) {
	if !s.plain {
		if err := s.build(ctx, rec); err != nil {
			return nil, false, nil, err
		}
	}
	failure, err = s.decode(ctx, rec)
	if err != nil || failure != nil {
		return nil, false, failure, err
	}
	d = s.current
	if s.plain {
		err = s.names.name(d)
		return d, err == nil, nil, err
	}
	s.nameUnplaced(d)
	before := d.Source
	if s.single != nil {
		d.Source, d.KeptLast = s.single.Apply(d.Source)
	}
	noObject := s.joiner.relate(ctx, rec, d)
	if noObject != nil && !errors.Is(noObject, errNoObject) {
		return d, false, nil, noObject
	}
	if err := s.names.name(d); err != nil {
		return d, false, nil, err
	}
	if noObject != nil {
		return d, false, s.unreadable(d, noObject), nil
	}
	if s.editor == nil {
		return d, true, nil, nil
	}
	var most int64
	if rec.Giant && s.memory != nil {
		if s.leave(rec, d, before) {
			s.decoder.Forget()
		}
		most = s.memory.maxDocument()
		most += most / 8 // a new name may be longer than the old one
	}
	before = d.Source
	index := d.Index
	keep, err = s.editor.Edit(d, most)
	switch {
	case errors.Is(err, doc.ErrTooLong):
		return d, false, s.tooLarge(d, "the rules make it longer; "+s.memory.bound()), nil
	case err != nil:
		return d, false, s.unreadable(d, fmt.Errorf("the rules cannot be applied: %w", err)), nil
	}
	if s.prefix != "" && !bytes.Equal(index, d.Index) {
		d.Index = append([]byte(s.prefix), d.Index...)
	}
	if s.leave(rec, d, before) {
		s.forgetForms()
	}
	return d, keep, nil, nil
}

// nameUnplaced logs a vector that could not be put back into a document, once for each field.
func (s *documents) nameUnplaced(d *doc.Document) {
	if s.log == nil || s.builder == nil || s.builder.unplaced == nil || s.named[s.builder.unplaced.Field] {
		return
	}
	if s.named == nil {
		s.named = map[string]bool{}
	}
	why := s.builder.unplaced
	s.named[why.Field] = true
	s.log.Warn("a vector is not put back into the source; others of this field may be as well", "index", string(d.Index), "shard", s.shard, "id", string(d.ID), "field", why.Field, "reason", why.Reason)
}

// build rebuilds the source of a record that does not store it. It first blocks until the memory of a long source is available.
func (s *documents) build(ctx context.Context, rec *lucene.Record) error {
	if s.builder == nil {
		return nil
	}
	if s.memory == nil {
		return s.builder.build(ctx, rec, s.decoder.Type, 0)
	}
	err := s.builder.build(ctx, rec, s.decoder.Type, min(longSource, s.memory.maxDocument()))
	if !tooLong(err) {
		return err
	}
	s.builder.forget()
	most, err := s.memory.MaxSource(ctx)
	if err != nil {
		return err
	}
	rec.Giant = true
	if err := s.memory.widen(ctx, most); err != nil {
		return err
	}
	err = s.builder.build(ctx, rec, s.decoder.Type, most)
	s.builder.forget()
	if rec.Values != nil {
		rec.Values.Shrink()
	}
	if tooLong(err) {
		s.builder.source = nil
		if !rec.HasSource { // otherwise the stored source is unchanged
			rec.Unbuilt = fmt.Errorf("a rebuilt source: %w", doc.ErrTooLong)
		}
		return nil
	}
	return err
}

// tooLong reports whether a source, or a part of it stored in another format, exceeds the limit.
func tooLong(err error) bool {
	return errors.Is(err, rebuild.ErrTooLong) || errors.Is(err, doc.ErrTooLong)
}

// decode sets current to the document of a record, with its source as one line of JSON. It first blocks until the memory of a long source
// is available.
func (s *documents) decode(ctx context.Context, rec *lucene.Record) (failure *doc.Failure, err error) {
	var most int64
	s.decoder.SetMaxSource(0)
	if s.memory != nil && mayBeLong(rec) {
		if most, err = s.convert(ctx, rec); err != nil {
			return nil, err
		}
	}
	s.current, failure = s.decoder.Decode(rec)
	if s.memory != nil && s.decoder.Outgrew() {
		limit, err := s.memory.MaxSource(ctx)
		if err != nil {
			return nil, err
		}
		if most < limit {
			if err := s.widen(ctx, rec, s.decoder.Stored(rec), limit); err != nil {
				return nil, err
			}
			s.current, failure = s.decoder.Decode(rec)
		}
	}
	switch {
	case failure != nil && failure.Reason == doc.TooLarge && s.memory != nil:
		failure.Detail += "; " + s.memory.bound()
	case failure == nil && s.decoder.Copied():
		s.leave(rec, s.current, s.decoder.Stored(rec))
	}
	return failure, nil
}

// mayBeLong reports whether the source of a record in another format may be longer than longSource.
func mayBeLong(rec *lucene.Record) bool {
	return rec.Giant || len(rec.Source) > longSource/2 || len(rec.RecoverySource) > longSource/2 || doc.Compressed(rec.Source) || doc.Compressed(rec.RecoverySource)
}

// convert blocks until the memory for converting a long source is available. It returns the maximum length of the result in bytes; 0: not
// long.
func (s *documents) convert(ctx context.Context, rec *lucene.Record) (most int64, err error) {
	stored := s.decoder.Stored(rec)
	size, exact := doc.Converted(stored)
	if size <= longSource && (size == 0 || !rec.Giant) {
		return 0, nil
	}
	if most, err = s.memory.MaxSource(ctx); err != nil {
		return 0, err
	}
	if exact {
		most = min(size, most)
	}
	return most, s.widen(ctx, rec, stored, most)
}

// widen blocks until the memory for converting a source to at most most bytes is available.
func (s *documents) widen(ctx context.Context, rec *lucene.Record, stored []byte, most int64) error {
	rec.Giant = true
	s.decoder.SetMaxSource(most)
	return s.memory.convert(ctx, int64(len(stored)), most)
}

// leave releases the raw bytes of a long document if its source no longer refers to them, and reports whether it did.
func (s *documents) leave(rec *lucene.Record, d *doc.Document, before []byte) bool {
	if !rec.Giant || len(d.Source) == 0 || len(before) == 0 || &d.Source[0] == &before[0] {
		return false
	}
	if s.joiner == nil && rec.Values == nil {
		d.ID, d.Type, d.Routing = bytes.Clone(d.ID), bytes.Clone(d.Type), bytes.Clone(d.Routing)
		rec.Drop()
	}
	return true
}

// forgetForms releases the copies of a long source that were made before rules changed it.
func (s *documents) forgetForms() {
	s.decoder.Forget()
	if s.single != nil {
		s.single.Forget()
	}
	if s.joiner != nil && cap(s.joiner.out) > longSource {
		s.joiner.out = nil
	}
}

// forget releases all copies of a long document.
func (s *documents) forget(rec *lucene.Record) {
	rec.Drop()
	s.forgetForms()
	if s.editor != nil {
		s.editor.Forget()
	}
	if s.builder != nil && cap(s.builder.source) > longSource {
		s.builder.source = nil
	}
}

// tooLarge returns the failure of a document that exceeds the request size of the target or the limit of sources.
func (s *documents) tooLarge(d *doc.Document, why string) *doc.Failure {
	return &doc.Failure{
		Index: string(d.Index), ID: string(d.ID), Type: string(d.Type), Routing: string(d.Routing), Shard: s.shard, Ordinal: d.Ordinal,
		Reason: doc.TooLarge, Detail: fmt.Sprintf("%d bytes; %s", len(d.Source), why), Source: bytes.Clone(d.Source),
	}
}

// unreadable returns the failure of a document to which the user's rules or a join field cannot be applied.
func (s *documents) unreadable(d *doc.Document, err error) *doc.Failure {
	return &doc.Failure{
		Index: string(d.Index), ID: string(d.ID), Type: string(d.Type), Routing: string(d.Routing), Shard: s.shard, Ordinal: d.Ordinal,
		Reason: doc.BadSource, Detail: err.Error(), Source: bytes.Clone(d.Source),
	}
}
