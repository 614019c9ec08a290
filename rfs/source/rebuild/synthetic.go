package rebuild

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// synthetic is the synthetic source of Elasticsearch. The version that created the index determines where the values of a type are stored.
// A segment only uses the places of its version.
type synthetic struct{}

const (
	suffixOriginal  = "._original"         // values that the field did not index
	suffixMalformed = "._ignore_malformed" // values that the type could not accept
	suffixOffsets   = ".offsets"           // the order of arrays
)

func (synthetic) reserved(string) bool { return true }

func (synthetic) claims(f *node) []string {
	var all []string
	for _, suffix := range suffixes(f) {
		all = append(all, f.path+suffix, f.path+suffix+suffixCounts)
	}
	if f.kind == "sparse_vector" {
		all = append(all, fieldNames) // an empty vector appears nowhere else
	}
	return all
}

func suffixes(f *node) []string {
	switch f.kind {
	case docCount:
		return nil
	case "flattened":
		return []string{"", suffixKeyed, suffixKeyedIgnored, suffixOffsets}
	case "keyword", "text", "match_only_text", "annotated_text":
		return []string{"", suffixOriginal, suffixOffsets}
	case "binary":
		return []string{""}
	case "dense_vector", "rank_vectors":
		return []string{suffixMagnitude}
	case "wildcard":
		return []string{"", suffixOriginal}
	case "aggregate_metric_double":
		all := []string{suffixMalformed}
		for _, m := range metricNames {
			all = append(all, "."+m)
		}
		return all
	}
	return []string{suffixMalformed, suffixOffsets}
}

func appendUnsigned(dst []byte, v int64) []byte { return strconv.AppendUint(dst, uint64(v), 10) }

func appendLong(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// numberOf returns the writer of the numbers of a type; nil for other types.
func numberOf(f *node) renderNumber {
	switch f.kind {
	case "long", "integer", "short", "byte":
		return appendLong
	case "double":
		return func(dst []byte, v int64) []byte { return appendFloat(dst, sortableDouble(v), 64) }
	case "float":
		return func(dst []byte, v int64) []byte { return appendFloat(dst, sortableFloat(v), 32) }
	case "half_float":
		return func(dst []byte, v int64) []byte { return appendFloat(dst, sortableHalf(v), 32) }
	case "unsigned_long": // 2^63 is subtracted, so that it sorts as a signed number
		return func(dst []byte, v int64) []byte { return appendUnsigned(dst, v^math.MinInt64) }
	case "scaled_float":
		if f.params.Scaling <= 0 {
			return nil
		}
		return func(dst []byte, v int64) []byte { return appendFloat(dst, unscaled(v, f.params.Scaling), 64) }
	case "boolean":
		return func(dst []byte, v int64) []byte { return strconv.AppendBool(dst, v != 0) }
	case "geo_point":
		return appendGeo
	case "date", "date_nanos":
		return momentsOf(f, parseDateFormat(f.params.Format))
	}
	return nil
}

// momentsOf returns the writer of the timestamps of a field; nil without a format.
func momentsOf(f *node, format dateFormat) renderNumber {
	switch {
	case format == nil:
		return nil
	case f.kind == "date":
		return func(dst []byte, v int64) []byte { return format(dst, time.UnixMilli(v).UTC()) }
	}
	return func(dst []byte, v int64) []byte { return format(dst, time.Unix(0, v).UTC()) }
}

// understood reports whether the values of a field can be rebuilt.
func understood(f *node) bool {
	if f.key && f.kind != "text" && !f.params.columns() && !bool(f.params.Store) {
		return false // kept nowhere
	}
	switch f.kind {
	case "alias", "long", "integer", "short", "byte", "double", "float", "half_float", "boolean", "geo_point", "ip", "keyword", "text":
		return true
	case "flattened", "completion", "sparse_vector", "unsigned_long":
		return true
	case "match_only_text", "wildcard", "version", "aggregate_metric_double", "histogram", "geo_shape", "rank_feature", "rank_features":
		return true
	case "scaled_float":
		return f.params.Scaling > 0
	case kindConstant:
		_, ok := f.params.constant()
		return ok
	case "dense_vector", "rank_vectors":
		_, width := f.params.elements()
		return width > 0
	case "date", "date_nanos", "date_range":
		return parseDateFormat(f.params.Format) != nil
	case "binary", "long_range", "integer_range", "double_range", "float_range", "ip_range":
		return true
	}
	return false
}

func (synthetic) layers(ctx context.Context, s *segment, f *node) ([]layer, string, error) {
	if len(f.params.Script) > 0 {
		return nil, "", nil // computed from other fields
	}
	switch f.kind {
	case "alias":
		return nil, "", nil
	case "long", "integer", "short", "byte", "double", "float", "half_float", "unsigned_long", "scaled_float", "boolean", "geo_point", "date", "date_nanos":
		if !f.params.columns() {
			return nil, "", nil // in _ignored_source
		}
		render := numberOf(f)
		switch {
		case render == nil && f.kind == "scaled_float":
			return nil, "the mapping has no scaling factor", nil
		case render == nil:
			return nil, "the format " + f.params.Format + " is unknown", nil
		}
		return s.numberLayers(ctx, f, render)
	case "ip":
		if !f.params.columns() {
			return nil, "", nil
		}
		bad, err := s.malformedLayer(ctx, f)
		if err != nil {
			return nil, "", err
		}
		return s.termLayers(ctx, f, func(dst, v []byte) []byte { dst, _ = appendIP(dst, v); return dst }, bad)
	case "keyword":
		if keepsOriginal(f, s.created) {
			return nil, "", nil // in _ignored_source
		}
		return s.keywordLayers(ctx, f)
	case "text", "match_only_text":
		return s.textLayers(ctx, f)
	case "wildcard":
		return s.wildcardLayers(ctx, f)
	case "version":
		return s.termLayers(ctx, f, appendVersion)
	case "aggregate_metric_double":
		return s.metricLayers(ctx, f)
	case "histogram":
		return s.histogramLayers(ctx, f)
	case docCount:
		return s.countLayers(ctx)
	case "flattened":
		return s.flattenedLayers(ctx, f)
	case kindConstant:
		return s.constantLayers(ctx, f)
	case "completion", "geo_shape", "rank_feature", "rank_features":
		return nil, "", nil // in _ignored_source
	case "sparse_vector":
		if !f.params.termVectors(s.created) {
			return nil, "", nil
		}
		return s.sparseLayers(ctx, f)
	case "dense_vector", "rank_vectors":
		return s.vectorLayers(ctx, f)
	case "binary", "long_range", "integer_range", "date_range", "double_range", "float_range", "ip_range":
		return s.binaryLayers(ctx, f)
	}
	return nil, "the type is unknown", nil
}

func (synthetic) source(ctx context.Context, s *segment, dst []byte) ([]byte, error) {
	if s.root.params.Enabled != nil && !bool(*s.root.params.Enabled) {
		return s.disabledRoot(dst)
	}
	body, some, err := s.object(ctx, dst, s.root)
	if err == nil && !some {
		body = append(dst, "{}"...)
	}
	return body, err
}

// Nodes before 9.3 keep the original of every keyword with a normalizer next to its column; later ones do not if the normalizer only
// converts to lower case. An index that was created between keepsOriginals and skipsOriginals can have both; the kept original wins.
const (
	keepsOriginals = 9_000_000
	skipsOriginals = 9_040_000
)

// keepsOriginal reports whether a keyword keeps the values that its normalizer changes in _ignored_source, in addition to its column. Keys
// of flattened objects do not.
func keepsOriginal(f *node, created int64) bool {
	return f.params.Normalizer != "" && !bool(f.params.SkipOriginal) && !f.key && (f.params.Normalizer != "lowercase" || created < keepsOriginals)
}

// binaryLayers returns the layers of types with binary values.
func (s *segment) binaryLayers(ctx context.Context, f *node) ([]layer, string, error) {
	c, err := s.column(ctx, f.path)
	if c == nil || err != nil {
		return nil, "", err // in _ignored_source
	}
	unknown := expect(c, columns.Binary)
	if f.kind == "binary" {
		b, err := s.counted(ctx, c, f.path)
		return []layer{blobText{b, appendBase64}}, unknown, err
	}
	bound := boundOf(f, parseDateFormat(f.params.Format))
	if bound == nil {
		unknown = "the format " + f.params.Format + " is unknown"
	}
	return []layer{&ranges{c, bound}}, unknown, nil
}

// orderOf returns the order of the arrays of a field; nil if the segment does not keep it.
func (s *segment) orderOf(ctx context.Context, f *node) (*order, error) {
	c, err := s.column(ctx, f.path+suffixOffsets)
	if c == nil || err != nil || c.Kind() != columns.Sorted {
		return nil, err
	}
	return &order{column: c}, nil
}

// expect returns the reason to refuse a column of another type than the field's, or "".
func expect(c *lucene.Column, kinds ...columns.Kind) string {
	if c == nil {
		return ""
	}
	for _, k := range kinds {
		if c.Kind() == k {
			return ""
		}
	}
	return "doc values of an unexpected type"
}

func (s *segment) numberLayers(ctx context.Context, f *node, render renderNumber) ([]layer, string, error) {
	c, err := s.column(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	o, err := s.orderOf(ctx, f)
	if err != nil {
		return nil, "", err
	}
	bad, err := s.malformedLayer(ctx, f)
	return []layer{&numbers{column: c, order: o, render: render}, bad}, expect(c, columns.Numeric, columns.SortedNumeric), err
}

// constantLayers returns the layers of a constant_keyword. Since 8.18 its column states which documents were sent with the value. Before,
// the value is in _ignored_source, or missing.
func (s *segment) constantLayers(ctx context.Context, f *node) ([]layer, string, error) {
	value, ok := f.params.constant()
	c, err := s.column(ctx, f.path)
	switch {
	case c == nil || err != nil:
		return nil, "", err
	case !ok || value == "":
		return nil, "the mapping does not state its value", nil
	}
	render := func(dst []byte, _ int64) []byte { return appendText(dst, []byte(value)) }
	return []layer{&numbers{column: c, render: render}}, expect(c, columns.Numeric, columns.SortedNumeric), nil
}

// constant returns the value of a constant_keyword, "" if it has none yet; ok is false if it is not a string.
func (p *params) constant() (value string, ok bool) {
	if len(p.Value) == 0 {
		return "", true
	}
	err := json.Unmarshal(p.Value, &value)
	return value, err == nil
}

// malformedLayer returns the layer that keeps the values that a field's type could not accept.
func (s *segment) malformedLayer(ctx context.Context, f *node) (layer, error) {
	b, err := s.blobsOf(ctx, f.path+suffixMalformed)
	if b == nil || err != nil {
		return malformed{f.path + suffixMalformed}, err
	}
	return blobMalformed{b}, nil
}

// originalLayer returns the layer that keeps the text that a field did not index.
func (s *segment) originalLayer(ctx context.Context, f *node) (layer, error) {
	b, err := s.blobsOf(ctx, f.path+suffixOriginal)
	if b == nil || err != nil {
		return storedText{name: f.path + suffixOriginal, java: f.kind == "match_only_text"}, err
	}
	return blobText{b, appendUTF8}, nil
}

func (s *segment) termLayers(ctx context.Context, f *node, render renderBytes, more ...layer) ([]layer, string, error) {
	c, err := s.column(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	o, err := s.orderOf(ctx, f)
	return append([]layer{&terms{column: c, order: o, render: render}}, more...), expect(c, columns.Sorted, columns.SortedSet), err
}

func (s *segment) keywordLayers(ctx context.Context, f *node) ([]layer, string, error) {
	original, err := s.originalLayer(ctx, f)
	switch {
	case err != nil:
		return nil, "", err
	case bool(f.params.Store):
		return []layer{storedText{name: f.path}, original}, "", nil
	case !f.params.columns():
		return nil, "", nil
	}
	b, err := s.blobsOf(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	if b != nil {
		return []layer{blobText{b, appendUTF8}, original}, "", nil
	}
	return s.termLayers(ctx, f, appendUTF8, original)
}

// firstOf is a text that a version before 9.3 stored and later versions rebuild from other places.
type firstOf struct {
	text storedText
	rest []layer
}

func (l firstOf) load(ctx context.Context, s *segment, out *values) error {
	if len(s.stored[l.text.name]) > 0 {
		return l.text.load(ctx, s, out)
	}
	for _, x := range l.rest {
		if err := x.load(ctx, s, out); err != nil {
			return err
		}
	}
	return nil
}

// textLayers returns the layers of a text: its stored values or doc values, or else the original kept for synthetic sources and the values
// of a keyword below it.
func (s *segment) textLayers(ctx context.Context, f *node) ([]layer, string, error) {
	original, err := s.originalLayer(ctx, f)
	if err != nil {
		return nil, "", err
	}
	if f.params.Store {
		return []layer{storedText{name: f.path}}, "", nil
	}
	if _, column := s.values.Has(f.path); column {
		b, err := s.blobsOf(ctx, f.path)
		if b != nil || err != nil {
			return []layer{blobText{b, appendUTF8}}, "", err
		}
		return s.termLayers(ctx, f, appendUTF8, original)
	}
	found, unknown, err := s.keywordsOf(ctx, f)
	switch {
	case unknown != "" || err != nil:
		return nil, unknown, err
	case len(found) == 0:
		return []layer{storedText{name: f.path}, original}, "", nil
	}
	return []layer{firstOf{storedText{name: f.path}, append([]layer{original}, found...)}}, "", nil
}

// keywordsOf returns the layers of the keyword below a text that holds its values; none if no keyword does. Nodes before 9.3 use a keyword
// without a normalizer, later ones the first keyword. If both can have written the segment, the keyword with more values is used: an
// earlier node kept all values of one, a later node all of the other.
func (s *segment) keywordsOf(ctx context.Context, f *node) (found []layer, unknown string, err error) {
	var normalized []layer
	for _, m := range f.multi {
		if m.kind != "keyword" || !bool(m.params.Store) && !m.params.columns() || keepsOriginal(m, s.created) {
			continue
		}
		layers, unknown, err := s.keywordLayers(ctx, m)
		switch {
		case unknown != "" || err != nil:
			return nil, unknown, err
		case m.params.Normalizer == "" && len(normalized) > 0:
			return []layer{&fullest{of: [2][]layer{layers, normalized}}}, "", nil
		case m.params.Normalizer == "" || s.created >= skipsOriginals:
			return layers, "", nil
		case len(normalized) == 0:
			normalized = layers
		}
	}
	return normalized, "", nil
}

// fullest is a field whose values are in one of two places: in the first, unless the second has more of them.
type fullest struct {
	of [2][]layer
	v  [2]values
}

func (l *fullest) load(ctx context.Context, s *segment, out *values) error {
	for i := range l.of {
		l.v[i].reset(out.most)
		for _, x := range l.of[i] {
			if err := x.load(ctx, s, &l.v[i]); err != nil {
				return err
			}
		}
	}
	v := &l.v[0]
	if l.v[1].n > v.n {
		v = &l.v[1]
	}
	if v.n == 0 {
		return nil
	}
	if err := out.next(); err != nil {
		return err
	}
	out.b = append(out.b, v.b...)
	out.n += v.n - 1
	return nil
}
