package plan

import (
	"slices"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// MultiType selects the treatment of an index in which several mapping types have documents.
type MultiType string

// The ways; the same id may exist once per type, and both documents must arrive.
const (
	SplitTypes MultiType = "split" // one target index per type: <index>_<type>
	UnionTypes MultiType = "union" // one target index, ids become <type>#<id>
)

// DuplicateKeys states what becomes of documents that have a key more than once in an object.
type DuplicateKeys string

// The values of --duplicate-keys.
const (
	SendDuplicates    DuplicateKeys = "send"      // as they are: OpenSearch refuses them
	KeepLastDuplicate DuplicateKeys = "keep-last" // as parsers before Elasticsearch 6 read them
)

// EmitType states whether the mapping type is written into the action lines.
type EmitType string

// The values of --emit-doc-type. Auto leaves the type out: no OpenSearch since 2.0 takes it.
const (
	EmitAuto EmitType = "AUTO"
	EmitOn   EmitType = "ON"
	EmitOff  EmitType = "OFF"
)

// Naming maps the documents of one source index to target indices and ids. It is
// decided once, when the work is seeded, and stored with the index entry, so that
// every worker names alike.
type Naming struct {
	Index string `json:"index"` // target index, and prefix of the split ones
	// Types are the mapping types that have documents, sorted; empty when types mean nothing.
	Types []string  `json:"types,omitempty"`
	Multi MultiType `json:"multi,omitempty"` // set when several types have documents
	Emit  bool      `json:"emit,omitempty"`  // index and type stay as they were
	// Join relates the documents of united types; nil: nothing does.
	Join *metadata.Join `json:"join,omitempty"`
}

// newNaming decides the naming of an index whose documents have the given types. A join field needs all of them in one
// index.
func newNaming(index string, types []string, multi MultiType, emit EmitType, join *metadata.Join) Naming {
	n := Naming{Index: index, Types: types, Join: join}
	switch {
	case join != nil:
		n.Multi = UnionTypes
	case emit == EmitOn:
		n.Emit = true
	case len(types) > 1:
		n.Multi = multi
	}
	return n
}

// Targets are the names of all target indices, sorted.
func (n Naming) Targets() []string {
	if n.Multi != SplitTypes {
		return []string{n.Index}
	}
	names := make([]string, 0, len(n.Types))
	for _, t := range n.Types {
		names = append(names, n.Index+"_"+t)
	}
	slices.Sort(names)
	return names
}

// TypeOf returns the mapping type whose documents land in a target index of a split; "" for all.
func (n Naming) TypeOf(target string) string {
	if n.Multi == SplitTypes {
		for _, t := range n.Types {
			if n.Index+"_"+t == target {
				return t
			}
		}
	}
	return ""
}
