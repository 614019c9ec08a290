package plan

import (
	"encoding/json"
	"slices"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Rebuild names how the sources of an index are rebuilt.
type Rebuild string

// RebuildSynthetic is the synthetic source of Elasticsearch, RebuildColumnar the source of its columnar modes, RebuildColumnarStored the source that these
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

// UsesFields reports whether sources are rebuilt on request, to which the cluster itself has no answer.
func (how Rebuild) UsesFields() bool { return how == RebuildFields || how == RebuildTerms }

// rebuilds returns how the sources of an index are rebuilt where they are not stored; asked says that those are, too, to
// which the cluster itself has no answer, and RebuildTerms that text is put together out of its terms; "": they are not.
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

// RebuiltMappings returns the mappings of which sources are rebuilt, by the type of their documents; that of an index with
// one type by "".
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
