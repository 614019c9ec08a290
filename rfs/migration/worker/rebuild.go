package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Rebuild names how the sources of an index are rebuilt.
type Rebuild string

// RebuildSynthetic is the synthetic source of Elasticsearch, RebuildColumnar that of its columnar modes, RebuildColumnarStored the one that these
// made when a document was indexed, RebuildDerived the derived source of OpenSearch, RebuildVectors a stored source of Elasticsearch with
// the vectors that were left out of it, RebuildFields
// what stored fields and doc values hold of sources that are switched off or filtered, RebuildTerms that and text out of its
// terms.
const (
	RebuildSynthetic      Rebuild = "synthetic"
	RebuildColumnar       Rebuild = "columnar"
	RebuildColumnarStored Rebuild = "columnar_stored"
	RebuildDerived        Rebuild = "derived"
	RebuildVectors        Rebuild = "vectors"
	RebuildFields         Rebuild = "fields"
	RebuildTerms          Rebuild = "terms"
)

// fields reports whether sources are rebuilt on request, to which the cluster itself has no answer.
func (how Rebuild) fields() bool { return how == RebuildFields || how == RebuildTerms }

// rebuilds returns how the sources of an index are rebuilt where they are not stored; asked says that those are, too, to
// which the cluster itself has no answer, and RebuildTerms that text is put together out of its terms; "": they are not.
func rebuilds(x *snapshot.Index, asked Rebuild) Rebuild {
	if !knownMode(x) {
		return ""
	}
	how := answers(x)
	switch {
	case leavesOutVectors(x) && (asked == "" || !filtered(x)):
		return RebuildVectors
	case how != "" || asked == "" || x.Settings["index.derived_source.enabled"] == "true":
		return how
	case modeOf(x) != "":
		if len(x.Mappings) == 1 {
			return modeOf(x) // whole, as it was before a filter
		}
		return ""
	case slices.ContainsFunc(x.Mappings, func(m snapshot.Mapping) bool { return reducedMapping(m.Body) != "" }) || x.Settings["index.mapping.source.mode"] == "disabled":
		if asked == RebuildTerms {
			return RebuildTerms
		}
		return RebuildFields
	}
	return ""
}

// answers returns how the cluster itself rebuilds the sources of an index; "" when it does not.
func answers(x *snapshot.Index) Rebuild {
	if len(x.Mappings) > 1 || len(x.Mappings) == 1 && !rebuild.SourceFilterOf(x.Mappings[0].Body).Empty() {
		return "" // of a filtered source the cluster answers a part
	}
	if x.Settings["index.derived_source.enabled"] == "true" {
		if reducedMapping(onlyMapping(x)) != "" {
			return "" // a cluster accepts no such mapping
		}
		return RebuildDerived
	}
	return modeOf(x)
}

// modeOf returns how the settings and the mapping of an index of Elasticsearch have sources rebuilt.
func modeOf(x *snapshot.Index) Rebuild {
	mode := x.Settings["index.mapping.source.mode"]
	if mode == "" {
		mode = storedSourceOf(onlyMapping(x)).Mode
	}
	switch {
	case mode == columnarStored:
		return RebuildColumnarStored
	case mode != "synthetic" && (mode != "" || !synthesizes(x)):
		return ""
	case isColumnar(x):
		return RebuildColumnar
	}
	return RebuildSynthetic
}

// onlyMapping returns the mapping of an index that is rebuilt, which has one at most; nil for none.
func onlyMapping(x *snapshot.Index) json.RawMessage {
	if len(x.Mappings) == 0 {
		return nil
	}
	return x.Mappings[0].Body
}

// builder puts sources together that are not stored, or stored in parts.
type builder struct {
	sources   map[string]*rebuild.Rebuilder // by the type; of an index without types that differ by ""
	originals bool                          // a recovery source is sent
	// sendsOriginals means that a recovery source is sent in place of a source.
	sendsOriginals bool
	source         []byte           // of the last document
	unplaced       *rebuild.Unknown // a vector that was not put back into it; nil: all were
}

// newBuilder returns the builder of an index, nil when its sources are stored or its mapping is not understood.
func newBuilder(ctx context.Context, r snapshot.Repository, e Entry) (*builder, error) {
	if e.Rebuild == "" {
		return nil, nil
	}
	x, err := e.Locator.Index(ctx, r)
	if err != nil {
		return nil, err
	}
	b := &builder{sources: map[string]*rebuild.Rebuilder{}, originals: e.Originals || !filtered(x), sendsOriginals: e.Originals}
	for name, mapping := range rebuiltMappings(x, e.Rebuild) {
		sources, err := e.Rebuild.of(mapping, x.Locator.Created)
		if errors.Is(err, fault.ErrUnsupported) {
			continue // documents without a source fail one by one
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

// of returns the Rebuilder for a mapping.
func (how Rebuild) of(mapping json.RawMessage, created int64) (*rebuild.Rebuilder, error) {
	switch how {
	case RebuildColumnar:
		return rebuild.NewColumnar(mapping, created, doc.AppendFormat)
	case RebuildColumnarStored:
		return rebuild.NewColumnarStored(doc.AppendFormat), nil
	case RebuildDerived:
		return rebuild.NewDerived(mapping)
	case RebuildVectors:
		return rebuild.NewPatched(mapping, created, doc.AppendJSON)
	case RebuildFields, RebuildTerms:
		return rebuild.NewFields(mapping, created, how == RebuildTerms)
	}
	return rebuild.New(mapping, created, doc.AppendFormat)
}

// rebuiltMappings returns the mappings of which sources are rebuilt, by the type of their documents; that of an index with
// one type by "".
func rebuiltMappings(x *snapshot.Index, how Rebuild) map[string]json.RawMessage {
	if !how.fields() {
		return map[string]json.RawMessage{"": onlyMapping(x)}
	}
	single, all := len(x.Types()) < 2, map[string]json.RawMessage{}
	for _, m := range x.Mappings {
		switch {
		case m.Type == "_default_" || reducedMapping(m.Body) == "" && x.Settings["index.mapping.source.mode"] != "disabled":
		case single:
			all[""] = m.Body
		default:
			all[m.Type] = m.Body
		}
	}
	return all
}

// filtered reports whether an index filters sources.
func filtered(x *snapshot.Index) bool {
	return slices.ContainsFunc(x.Mappings, func(m snapshot.Mapping) bool { return !rebuild.SourceFilterOf(m.Body).Empty() })
}

// build gives a record without any stored source the one that its other fields make, or the reason why they do not, and
// completes one that a filter reduced. A recovery source is the original and stays. One of more than most bytes is
// rebuild.ErrTooLong; 0: none is.
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

// patch puts the vectors back that were left out of the form that is sent, but for those whose place is not known.
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

// forget gives up what a long source was made in, but for the source.
func (b *builder) forget() {
	for _, r := range b.sources {
		r.Forget()
	}
}

// complete adds to a filtered source what the filter left out. What cannot be completed stays as it is stored.
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
