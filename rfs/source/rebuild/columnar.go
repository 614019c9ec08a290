package rebuild

import (
	"context"
	"encoding/json"
)

// columnar is the synthetic source of an index of the columnar modes of Elasticsearch 9.5, in which ids, routings and all fields are
// columns. Arrays keep their order: terms and text are in slots, other types have <field>.offsets.
type columnar struct{ synthetic }

// columnarMeta are the columns that the cluster itself adds to each document. Any other column may hold values of unknown meaning, so it is
// refused by name.
var columnarMeta = map[string]bool{
	"_id": true, "_routing": true, "_primary_term": true, "_seq_no": true, "_version": true, "_recovery_source": true, "_recovery_source_size": true,
	"__soft_deletes": true, "__root_doc_for_nested": true, "_ignored": true, "_ignored_source": true, "_ignored_source" + suffixCounts: true, "_nested_path": true,
}

// NewColumnarStored returns the Rebuilder for an index of a columnar mode whose sources were built when documents were indexed.
func NewColumnarStored(convert func(dst []byte, format byte, source []byte) ([]byte, error)) *Rebuilder {
	return &Rebuilder{root: &node{object: true, params: &params{}}, convert: convert, dialect: columnar{}, whole: true}
}

// NewColumnar returns the Rebuilder for an index of a columnar mode; created is the version that created the index.
func NewColumnar(mapping json.RawMessage, created int64, convert func(dst []byte, format byte, source []byte) ([]byte, error)) (*Rebuilder, error) {
	r, err := New(mapping, created, convert)
	if err != nil {
		return nil, err
	}
	r.dialect = columnar{}
	return r, nil
}

// StatesColumnar returns how well the fields of an index of a columnar mode are rebuilt.
func StatesColumnar(mapping json.RawMessage, created int64) ([]FieldState, error) {
	return states(mapping, func(f *node) bool { return understood(f) && !unknownColumnar[f.kind] })
}

// StatesStored returns the states of the fields if the stored source holds all of them as the cluster returns it.
func StatesStored(mapping json.RawMessage) ([]FieldState, error) {
	return states(mapping, func(*node) bool { return true })
}

func (c columnar) claims(f *node) []string {
	return append(c.synthetic.claims(f), f.path+suffixCounts)
}

// reserved reports whether a column belongs to the cluster.
func (columnar) reserved(name string) bool { return columnarMeta[name] }

// unknownColumnar are types whose columns in these modes are unknown.
var unknownColumnar = map[string]bool{"match_only_text": true, "wildcard": true, "version": true, "aggregate_metric_double": true,
	"histogram": true, "geo_shape": true, "rank_feature": true, "rank_features": true}

func (c columnar) layers(ctx context.Context, s *segment, f *node) ([]layer, string, error) {
	if len(f.params.Script) > 0 || len(f.params.CopyTo) > 0 {
		return c.synthetic.layers(ctx, s, f)
	}
	switch {
	case f.kind == "keyword" || f.kind == "text" || f.kind == "ip":
		return s.slotLayers(ctx, f)
	case f.kind == "flattened":
		return s.keyedSlotLayers(ctx, f)
	case unknownColumnar[f.kind]:
		return nil, "the type is unknown in this mode", nil
	}
	return c.synthetic.layers(ctx, s, f)
}
