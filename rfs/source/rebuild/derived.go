package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// derived is the derived source of OpenSearch 3: each field from its doc values, or from its stored values if it has none. Nothing else is
// kept: the cluster itself returns sorted arrays, and omits what a field ignored.
type derived struct{}

// NewDerived returns the Rebuilder for an index of OpenSearch with derived source.
func NewDerived(mapping json.RawMessage) (*Rebuilder, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnsupported)
	}
	root.hashOrder()
	return &Rebuilder{root: root, dialect: derived{}}, nil
}

// kindConstant is the type whose value is only in the mapping: the cluster writes it into every document.
const kindConstant = "constant_keyword"

func (derived) reserved(string) bool { return true }

func (derived) claims(*node) []string { return nil }

// derivedRenders returns the writers of a type's values: in a column of numbers, in a column of terms, and as stored values. Unknown types
// have none.
func derivedRenders(f *node) (number renderNumber, text renderBytes, stored renderStored) {
	if len(f.params.CopyTo) > 0 {
		return nil, nil, nil
	}
	if (f.kind == "keyword" || f.kind == "wildcard") && (f.params.IgnoreAbove != 0 || f.params.Normalizer != "") {
		return nil, nil, nil // doc values of such fields lack values or differ; the cluster refuses their mapping
	}
	return typeRenders(f, derivedDate)
}

// typeRenders returns the writers of a type's values; date returns the writer of its timestamps.
func typeRenders(f *node, date func(*node) renderNumber) (number renderNumber, text renderBytes, stored renderStored) {
	switch f.kind {
	case "long", "integer", "short", "byte":
		return appendLong, nil, storedNumber(appendLong)
	case "double", "float", "half_float":
		return numberOf(f), nil, storedFloat
	case "unsigned_long":
		return appendUnsigned, nil, storedDigits
	case "scaled_float":
		if f.params.Scaling <= 0 {
			return nil, nil, nil
		}
		number = func(dst []byte, v int64) []byte { return appendDouble(dst, float64(v)/f.params.Scaling) }
		return number, nil, storedNumber(number)
	case "boolean":
		return numberOf(f), nil, storedBoolean
	case "date", "date_nanos":
		if number = date(f); number == nil {
			return nil, nil, nil
		}
		return number, nil, storedNumber(number)
	case "geo_point":
		return appendGeo, nil, storedGeo
	case "ip":
		text = func(dst, v []byte) []byte { dst, _ = appendIP(dst, v); return dst }
		return nil, text, storedTerm(text)
	case "keyword", "wildcard":
		return nil, appendUTF8, storedText8
	}
	return nil, nil, nil
}

// derivedDate returns the writer of the timestamps of a field: in its print_format, else in the first of its formats.
func derivedDate(f *node) renderNumber {
	name := f.params.PrintFormat
	if name == "" {
		name = f.params.Format
	}
	format := parseDateFormat(name)
	if format == nil {
		return nil
	}
	if f.kind == "date" {
		return momentsOf(f, format)
	}
	precision := time.Nanosecond
	switch first, _, _ := strings.Cut(name, "||"); first {
	case "", "strict_date_optional_time", "date_optional_time", "iso8601": // three digits of the second
		precision = time.Millisecond
	}
	return func(dst []byte, v int64) []byte { return format(dst, time.Unix(0, v).UTC().Truncate(precision)) }
}

func (derived) layers(ctx context.Context, s *segment, f *node) ([]layer, string, error) {
	if len(f.params.CopyTo) > 0 {
		return nil, "copy_to in an index with derived source is unknown", nil
	}
	switch f.kind {
	case "text":
		return []layer{storedValues{f.path, storedText8}}, "", nil
	case "binary":
		return []layer{storedValues{f.path, storedTerm(appendBase64)}}, "", nil
	case "match_only_text":
		return nil, "its text is kept nowhere", nil
	case kindConstant:
		return nil, "values in addition to the one of the mapping are unknown", nil
	}
	number, text, stored := derivedRenders(f)
	if stored == nil {
		return nil, "the type or one of its parameters is unknown", nil
	}
	if !f.params.columns() {
		return []layer{storedValues{f.path, stored}}, "", nil
	}
	c, err := s.column(ctx, f.path)
	switch {
	case err != nil:
		return nil, "", err
	case c == nil:
		return nil, "it has no doc values, although its mapping asks for them", nil
	case text != nil:
		return []layer{&terms{column: c, render: text}}, expect(c, columns.Sorted, columns.SortedSet), nil
	}
	return []layer{&numbers{column: c, render: number, unsigned: f.kind == "unsigned_long"}}, expect(c, columns.Numeric, columns.SortedNumeric), nil
}

func (d derived) source(ctx context.Context, s *segment, dst []byte) ([]byte, error) {
	return d.object(ctx, s, dst, s.root)
}

// object appends an object. Empty objects are written, too, because the cluster does not know whether a document had them.
func (d derived) object(ctx context.Context, s *segment, dst []byte, n *node) ([]byte, error) {
	if n.kind != "" || n.params.Enabled != nil && !bool(*n.params.Enabled) {
		return nil, &Unknown{Field: n.path, Type: n.kind, Reason: "a nested or disabled object in an index with derived source is unknown"}
	}
	out := append(dst, '{')
	for _, c := range n.children {
		mark := len(out)
		if len(out) > len(dst)+1 {
			out = append(out, ',')
		}
		name := c.leaf
		if c.kind == kindConstant {
			name = c.path // the cluster writes its whole path, even inside of an object
		}
		out = append(appendUTF8(out, []byte(name)), ':')
		var wrote bool
		var err error
		switch {
		case c.object:
			out, err = d.object(ctx, s, out, c)
			wrote = true
		case c.kind == kindConstant:
			out, wrote, err = d.constant(ctx, s, out, c)
		case s.leaves[c.path] != nil:
			out, wrote, err = s.leaf(ctx, out, c)
		}
		if err == nil {
			err = fits(len(out), s.most)
		}
		if err != nil {
			return nil, err
		}
		if !wrote {
			out = out[:mark]
		}
	}
	return append(out, '}'), nil
}

// constant appends the value of a constant_keyword, which no document holds.
func (derived) constant(ctx context.Context, s *segment, dst []byte, n *node) ([]byte, bool, error) {
	if l := s.leaves[n.path]; l != nil {
		return dst, false, s.refuse(ctx, l)
	}
	var value string
	if json.Unmarshal(n.params.Value, &value) != nil {
		return dst, false, &Unknown{Field: n.path, Type: n.kind, Reason: "its value in the mapping is not a string"}
	}
	return appendUTF8(dst, []byte(value)), true, nil
}

// renderStored appends a stored value as JSON, or nothing if the type cannot have it.
type renderStored func(dst []byte, v lucene.StoredValue) []byte

// storedValues are the stored values of a field, in the order in which they were sent.
type storedValues struct {
	name   string
	render renderStored
}

func (l storedValues) load(_ context.Context, s *segment, out *values) error {
	for _, v := range s.stored[l.name] {
		if err := out.next(); err != nil {
			return err
		}
		mark := len(out.b)
		if out.b = l.render(out.b, v); len(out.b) <= mark {
			return &Unknown{Reason: "a stored value that the type cannot have"}
		}
	}
	return nil
}
