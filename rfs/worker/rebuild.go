package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/rebuild"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// Rebuild names how the sources of an index are rebuilt.
type Rebuild string

// RebuildSynthetic is the synthetic source of Elasticsearch, RebuildDerived the derived source of OpenSearch.
const (
	RebuildSynthetic Rebuild = "synthetic"
	RebuildDerived   Rebuild = "derived"
)

// rebuilds returns how the sources of an index are rebuilt where they are not stored.
func rebuilds(x *snapshot.Index) Rebuild {
	if !knownMode(x) {
		return ""
	}
	if len(x.Mappings) > 1 || len(x.Mappings) == 1 && !filterOf(x.Mappings[0].Body).empty() {
		return "" // of a filtered source the cluster answers a part
	}
	if x.Settings["index.derived_source.enabled"] == "true" {
		if reducedMapping(onlyMapping(x)) != "" {
			return "" // a cluster accepts no such mapping
		}
		return RebuildDerived
	}
	mode := x.Settings["index.mapping.source.mode"]
	if mode == "" {
		mode = storedSourceOf(onlyMapping(x)).Mode
	}
	switch mode {
	case "synthetic":
		return RebuildSynthetic
	case "":
		switch x.Settings["index.mode"] {
		case "logsdb", "time_series":
			return RebuildSynthetic
		}
	}
	return ""
}

// onlyMapping returns the mapping of an index that is rebuilt, which has one at most; nil for none.
func onlyMapping(x *snapshot.Index) json.RawMessage {
	if len(x.Mappings) == 0 {
		return nil
	}
	return x.Mappings[0].Body
}

// builder puts sources together that are not stored.
type builder struct {
	sources *rebuild.Rebuilder
	source  []byte // of the last document
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
	var sources *rebuild.Rebuilder
	if e.Rebuild == RebuildDerived {
		sources, err = rebuild.NewDerived(onlyMapping(x))
	} else {
		sources, err = rebuild.New(onlyMapping(x), x.Locator.Created, doc.AppendFormat)
	}
	if errors.Is(err, fault.ErrUnsupported) {
		return nil, nil // documents without a source fail one by one
	}
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", e.Locator.IndexName, err)
	}
	return &builder{sources: sources}, nil
}

// build gives a record without any stored source the one that its other fields make, or the reason why they do not.
// A recovery source is the original and stays.
func (b *builder) build(ctx context.Context, rec *lucene.Record) error {
	if b == nil || rec.Values == nil || rec.HasSource || len(rec.RecoverySource) > 0 {
		return nil
	}
	source, err := b.sources.Append(ctx, b.source[:0], rec.Values)
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
