package plan

import (
	"encoding/json"
	"slices"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Rebuild is the method by which the sources of an index are rebuilt.
type Rebuild string

// RebuildSynthetic is the synthetic source of Elasticsearch; RebuildColumnar the source of its columnar modes, RebuildColumnarStored the
// source that these modes build when a document is indexed; RebuildDerived the derived source of OpenSearch; RebuildVectors a stored source
// of Elasticsearch plus the vectors that were left out of it. RebuildFields uses stored fields and doc values for disabled or filtered
// sources, RebuildTerms in addition the terms of text.
const (
	RebuildSynthetic      Rebuild = "synthetic"
	RebuildColumnar       Rebuild = "columnar"
	RebuildColumnarStored Rebuild = "columnar_stored"
	RebuildDerived        Rebuild = "derived"
	RebuildVectors        Rebuild = "vectors"
	RebuildFields         Rebuild = "fields"
	RebuildTerms          Rebuild = "terms"
)

// UsesFields reports whether sources are rebuilt on request although the source cluster itself cannot return them.
func (how Rebuild) UsesFields() bool { return how == RebuildFields || how == RebuildTerms }

// rebuilds returns how the sources of an index are rebuilt; "" if they are stored or cannot be rebuilt. asked is the method requested for
// sources that the cluster itself cannot return.
func rebuilds(x *snapshot.Index, asked Rebuild) Rebuild {
	if !knownMode(x) {
		return ""
	}
	how := answers(x)
	switch {
	case leavesOutVectors(x) && (asked == "" || !Filtered(x)):
		return RebuildVectors
	case how != "" || asked == "" || x.Settings["index.derived_source.enabled"] == "true":
		return how
	case modeOf(x) != "":
		if len(x.Mappings) == 1 {
			return modeOf(x) // the complete source, as it was before filtering
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

// answers returns how the source cluster itself rebuilds the sources of an index; "" if it does not.
func answers(x *snapshot.Index) Rebuild {
	if len(x.Mappings) > 1 || len(x.Mappings) == 1 && !rebuild.SourceFilterOf(x.Mappings[0].Body).Empty() {
		return "" // the cluster returns only the filtered part
	}
	if x.Settings["index.derived_source.enabled"] == "true" {
		if reducedMapping(onlyMapping(x)) != "" {
			return "" // clusters accept no such mapping
		}
		return RebuildDerived
	}
	return modeOf(x)
}

// modeOf returns how an index of Elasticsearch rebuilds sources according to its settings and mapping.
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

// onlyMapping returns the mapping of a rebuilt index, which has at most one; nil if it has none.
func onlyMapping(x *snapshot.Index) json.RawMessage {
	if len(x.Mappings) == 0 {
		return nil
	}
	return x.Mappings[0].Body
}

// Rebuilder returns the Rebuilder for a mapping.
func (how Rebuild) Rebuilder(mapping json.RawMessage, created int64) (*rebuild.Rebuilder, error) {
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

// RebuiltMappings returns the mappings from which sources are rebuilt, by document type; the key is "" for an index with one type.
func RebuiltMappings(x *snapshot.Index, how Rebuild) map[string]json.RawMessage {
	if !how.UsesFields() {
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

// Filtered reports whether an index filters sources.
func Filtered(x *snapshot.Index) bool {
	return slices.ContainsFunc(x.Mappings, func(m snapshot.Mapping) bool { return !rebuild.SourceFilterOf(m.Body).Empty() })
}
