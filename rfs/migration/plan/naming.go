package plan

import (
	"slices"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// MultiType selects the treatment of an index in which several mapping types have documents.
type MultiType string

// Values of --multi-type. The same id may exist once per type, and both documents must arrive.
const (
	SplitTypes MultiType = "split" // one target index per type: <index>_<type>
	UnionTypes MultiType = "union" // one target index, ids become <type>#<id>
)

// DuplicateKeys selects the treatment of documents in which an object has the same key more than once.
type DuplicateKeys string

// The values of --duplicate-keys.
const (
	SendDuplicates    DuplicateKeys = "send"      // unchanged: OpenSearch rejects them
	KeepLastDuplicate DuplicateKeys = "keep-last" // as parsers before Elasticsearch 6 read them
)

// EmitType selects whether action lines contain the mapping type.
type EmitType string

// Values of --emit-doc-type. Auto omits the type, because OpenSearch 2.0 and later do not accept it.
const (
	EmitAuto EmitType = "AUTO"
	EmitOn   EmitType = "ON"
	EmitOff  EmitType = "OFF"
)

// Naming maps the documents of one source index to target indices and ids. It is decided once, when the work is seeded, and stored in the
// index entry, so that every worker uses the same names.
type Naming struct {
	Index string `json:"index"` // target index; with SplitTypes, prefix of the target indices
	// Types are the mapping types that have documents, sorted; empty if types do not matter.
	Types []string  `json:"types,omitempty"`
	Multi MultiType `json:"multi,omitempty"` // set when several types have documents
	Emit  bool      `json:"emit,omitempty"`  // action lines contain the type
	// Join relates the documents of united types; nil: no join field.
	Join *metadata.Join `json:"join,omitempty"`
}

// newNaming returns the naming of an index whose documents have the given types. A join field requires that all of them are in one index.
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

// Targets returns the names of all target indices, sorted.
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

// TypeOf returns the mapping type of the documents in a target index of a split; "" for all types.
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
