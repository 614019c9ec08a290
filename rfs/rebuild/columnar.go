package rebuild

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

// columnar is the synthetic source of an index of the columnar modes of Elasticsearch 9.5, in which ids and all fields are
// columns. Only what was compared with a cluster's answers is rebuilt: a single value of the types that columnarTypes names.
// Whatever else a document has is refused by the name of the field.
type columnar struct{ synthetic }

// columnarTypes are the types whose single values are rebuilt.
var columnarTypes = map[string]bool{"date": true, "keyword": true, "long": true, "integer": true, "short": true, "byte": true, "boolean": true}

// columnarMeta are the columns that the cluster itself adds to each document. Another one may be a routing, an ignored
// value, or what takes the values of fields that are not mapped.
var columnarMeta = map[string]bool{
	"_id": true, "_primary_term": true, "_seq_no": true, "_version": true, "_recovery_source": true, "_recovery_source_size": true, "__soft_deletes": true,
}

// NewColumnar returns the Rebuilder for an index of a columnar mode that was created by a version.
func NewColumnar(mapping json.RawMessage, created int64) (*Rebuilder, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnsupported)
	}
	if len(root.findNested(nil)) > 0 {
		return nil, fmt.Errorf("nested objects of a columnar index are not known: %w", fault.ErrUnsupported)
	}
	return &Rebuilder{root: root, created: created, dialect: columnar{}}, nil
}

// StatesColumnar returns how well the fields of an index of a columnar mode are rebuilt.
func StatesColumnar(mapping json.RawMessage, created int64) ([]FieldState, error) {
	if _, err := NewColumnar(mapping, created); err != nil {
		return nil, err
	}
	return states(mapping, func(f *node) bool { return columnarUnknown(f) == "" && understood(f, created) })
}

// columnarUnknown returns why a field is not rebuilt.
func columnarUnknown(f *node) string {
	switch {
	case !columnarTypes[f.kind]:
		return "the type is not known in a columnar index"
	case f.params.Normalizer != "" || len(f.params.CopyTo) > 0 || len(f.params.Script) > 0:
		return "a parameter of the field is not known in a columnar index"
	}
	return ""
}

// claims leaves the columns of fields that are not rebuilt to the strangers, which refuse a document.
func (c columnar) claims(f *node) []string {
	if columnarUnknown(f) != "" {
		return nil
	}
	return c.synthetic.claims(f)
}

func (c columnar) layers(ctx context.Context, s *segment, f *node) ([]layer, string, error) {
	if unknown := columnarUnknown(f); unknown != "" {
		return nil, unknown, nil
	}
	all, unknown, err := c.synthetic.layers(ctx, s, f)
	for i, l := range all {
		all[i] = single{l}
	}
	return all, unknown, err
}

// reserved reports whether a column belongs to the cluster.
func (columnar) reserved(name string) bool { return columnarMeta[name] }

// single is a layer of which a document has one value at most.
type single struct{ layer }

func (l single) load(ctx context.Context, s *segment, out *values) error {
	if err := l.layer.load(ctx, s, out); err != nil {
		return err
	}
	if out.n > 1 || out.array {
		return &Unknown{Reason: "how a columnar index keeps several values is not known"}
	}
	return nil
}
