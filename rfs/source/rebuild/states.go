package rebuild

import "encoding/json"

// State describes how well the values of a field are rebuilt.
type State string

// The states. A document with a value of a lost field has no source; all others are migrated. If sources are disabled, such a document is
// migrated with its other fields.
const (
	Exact       State = "exact"       // as the cluster returns them; if sources are disabled, as they were sent
	Normal      State = "normal form" // as the field has them: sorted, distinct, normalized
	Approximate State = "approximate" // the terms that the analyzer made of a text, in order
	Lost        State = "lost"        // the type, or one of its parameters, is not understood, or nothing holds the values
)

// FieldState describes how well one field of a mapping is rebuilt.
type FieldState struct {
	Field string `json:"field"`
	Type  string `json:"type"`
	State State  `json:"state"`
	Note  string `json:"note,omitempty"`
	// Unconfirmed is set if the result was not compared with a released node: the field is rebuilt according to the source code of its
	// module.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// unconfirmed are the types of Elasticsearch modules that were not compared with a released node. They are rebuilt according to the
// module's source code, and were compared with nodes that had a reduced form of its mappers, or with columns of other types.
var unconfirmed = map[string]bool{"match_only_text": true, "wildcard": true, "version": true, "aggregate_metric_double": true, "histogram": true,
	"geo_shape": true, "rank_feature": true, "rank_features": true, "unsigned_long": true, "scaled_float": true, kindConstant: true}

// States returns how well the fields of a synthetic source are rebuilt.
func States(mapping json.RawMessage) ([]FieldState, error) {
	all, err := states(mapping, understood)
	for i, f := range all {
		all[i].Unconfirmed = f.State == Exact && unconfirmed[f.Type]
	}
	return all, err
}

// StatesDerived returns how well the fields of a derived source are rebuilt.
func StatesDerived(mapping json.RawMessage) ([]FieldState, error) {
	return states(mapping, func(f *node) bool {
		if f.kind == "text" || f.kind == "binary" || f.kind == kindConstant {
			return len(f.params.CopyTo) == 0
		}
		number, text, stored := derivedRenders(f)
		return (number != nil || text != nil) && stored != nil
	})
}

func states(mapping json.RawMessage, understood func(*node) bool) ([]FieldState, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, err
	}
	return root.states(understood), nil
}

// states returns the state of each field: Exact if it is understood, Normal for a key with another normalizer than lowercase, else Lost.
func (n *node) states(understood func(*node) bool) (all []FieldState) {
	n.walk(func(f *node) {
		x := FieldState{Field: f.path, Type: f.kind, State: Lost}
		switch {
		case understood(f) && f.key && f.params.Normalizer != "" && f.params.Normalizer != "lowercase":
			x.State = Normal // the cluster returns it without the normalizer
		case understood(f):
			x.State = Exact
		case f.key:
			x.Note = "documents arrive without it, as the cluster answers them"
		}
		all = append(all, x)
	})
	return all
}
