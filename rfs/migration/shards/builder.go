package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// builder rebuilds sources that are not stored or only stored in part.
type builder struct {
	sources   map[string]*rebuild.Rebuilder // by document type; "" for an index without distinct types
	originals bool                          // recovery sources are sent
	// sendsOriginals means that the recovery source is sent instead of the source.
	sendsOriginals bool
	source         []byte           // source of the last document
	unplaced       *rebuild.Unknown // a vector that could not be put back; nil: none
}

// newBuilder returns the builder of an index; nil if its sources are stored or its mapping is not supported.
func newBuilder(ctx context.Context, r snapshot.Repository, e plan.Entry) (*builder, error) {
	if e.Rebuild == "" {
		return nil, nil
	}
	x, err := e.Locator.Index(ctx, r)
	if err != nil {
		return nil, err
	}
	b := &builder{sources: map[string]*rebuild.Rebuilder{}, originals: e.Originals || !plan.Filtered(x), sendsOriginals: e.Originals}
	for name, mapping := range plan.RebuiltMappings(x, e.Rebuild) {
		sources, err := e.Rebuild.Rebuilder(mapping, x.Locator.Created)
		if errors.Is(err, fault.ErrUnsupported) {
			continue // documents without a source fail individually
		}
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", e.Locator.IndexName, err)
		}
		b.sources[name] = sources
	}
	if len(b.sources) == 0 {
		return nil, nil
	}
	return b, nil
}

// build sets the source of a record without any stored source from its other fields, or returns the reason why it cannot, and
// completes a filtered source. A recovery source is the original and stays unchanged. A source longer than most bytes is a
// rebuild.ErrTooLong; 0: no limit.
func (b *builder) build(ctx context.Context, rec *lucene.Record, typ func(*lucene.Record) []byte, most int64) error {
	b.unplaced = nil
	sources := b.sources[""]
	if sources == nil {
		sources = b.sources[string(typ(rec))]
	}
	switch {
	case rec.Values == nil || sources == nil:
		return nil
	case len(rec.RecoverySource) > 0 && (b.originals || !rec.HasSource) && !sources.Patches():
		return nil
	}
	sources.Bound(most)
	if sources.Patches() {
		return b.patch(ctx, sources, rec)
	}
	if rec.HasSource {
		return b.complete(ctx, sources, rec)
	}
	source, err := sources.Append(ctx, b.source[:0], rec.Values)
	if _, ok := errors.AsType[*rebuild.Unknown](err); ok {
		rec.Unbuilt = err
		return nil
	}
	if err != nil {
		return err
	}
	b.source = source
	rec.Source, rec.HasSource, rec.Rebuilt = source, true, true
	return nil
}

// patch puts omitted vectors back into the source that is sent, except for vectors whose position is unknown.
func (b *builder) patch(ctx context.Context, sources *rebuild.Rebuilder, rec *lucene.Record) error {
	form, original := &rec.Source, false
	if len(rec.RecoverySource) > 0 && (b.sendsOriginals || !rec.HasSource) {
		form, original = &rec.RecoverySource, true
	}
	if len(*form) == 0 {
		return nil
	}
	same := bytes.Equal(rec.Source, rec.RecoverySource)
	source, done, err := sources.Patch(ctx, b.source[:0], *form, original, rec.Values)
	unplaced, ok := errors.AsType[*rebuild.Unknown](err)
	if err != nil && !ok {
		return err
	}
	b.unplaced, rec.Patched = unplaced, !ok
	if !done {
		return nil
	}
	b.source, rec.Rebuilt = source, true
	if *form = source; same {
		rec.Source, rec.RecoverySource = source, source
	}
	return nil
}

// forget releases the buffers of a long source, but not the source itself.
func (b *builder) forget() {
	for _, r := range b.sources {
		r.Forget()
	}
}

// complete adds the omitted parts to a filtered source. Parts that cannot be completed stay as stored.
func (b *builder) complete(ctx context.Context, sources *rebuild.Rebuilder, rec *lucene.Record) error {
	if !sources.Completes() {
		return nil
	}
	source, done, err := sources.Complete(ctx, b.source[:0], rec.Source, rec.Values)
	if _, ok := errors.AsType[*rebuild.Unknown](err); ok {
		return nil
	}
	if err != nil || !done {
		return err
	}
	b.source = source
	rec.Source, rec.Rebuilt = source, true
	return nil
}
