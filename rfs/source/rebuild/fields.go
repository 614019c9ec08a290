package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// fields is the source of an index whose mapping disables or filters sources: each field from its stored values, else its doc values, else
// the doc values of a multi-field. The cluster returns no source to compare with; the rebuilt documents have the values that the fields
// had. Fields that are stored nowhere (Lost) are omitted.
type fields struct{}

// NewFields returns the Rebuilder for an index without stored sources, or with filtered ones; created is the version that created the
// index. For filtered sources it handles the fields that the filter excludes (Complete). text states that analyzed text which nothing else
// holds is rebuilt from its terms.
func NewFields(mapping json.RawMessage, created int64, text bool) (*Rebuilder, error) {
	root, places, err := parseFields(mapping, created, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnsupported)
	}
	return &Rebuilder{root: root, created: created, dialect: fields{}, places: places, lenient: true}, nil
}

// parseFields returns the part of a mapping that sources lack, and the places of its fields' values.
func parseFields(mapping json.RawMessage, created int64, text bool) (*node, map[string]place, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, nil, err
	}
	filter := root.params.Source
	places := placesOf(root, created, filter, text)
	if !filter.Empty() {
		root.prune(filter, created)
	}
	return root, places, nil
}

// StatesFields returns the states of the fields that the sources of an index lack; text is as for NewFields.
func StatesFields(mapping json.RawMessage, created int64, text bool) ([]FieldState, error) {
	root, places, err := parseFields(mapping, created, text)
	if err != nil {
		return nil, err
	}
	var all []FieldState
	root.walkAll(func(n *node) {
		switch {
		case n.object && !n.params.enabled():
			all = append(all, FieldState{Field: n.path, Type: "object", State: Lost, Note: "it is not indexed"})
		case !n.object && n.kind != "alias":
			p := places[n.path]
			all = append(all, FieldState{Field: n.path, Type: n.kind, State: p.state, Note: p.note, Unconfirmed: p.unconfirmed})
		}
	})
	return all, nil
}

func (fields) reserved(string) bool { return true }

func (fields) claims(f *node) []string {
	if f.kind == "aggregate_metric_double" {
		return synthetic{}.claims(f)
	}
	return nil
}

func (fields) layers(ctx context.Context, s *segment, f *node) ([]layer, string, error) {
	p := s.places[f.path]
	if p.from == nil {
		return nil, "", nil
	}
	if p.terms {
		text, err := s.values.Text(ctx, p.from.path, s.texts())
		if text == nil || err != nil {
			return nil, "", err
		}
		return []layer{analyzed{text, p.from.gap(s.created)}}, "", nil
	}
	switch p.from.kind {
	case "sparse_vector":
		return s.sparseLayers(ctx, p.from)
	case "dense_vector", "rank_vectors":
		return s.vectorLayers(ctx, p.from)
	}
	r := rendersOf(p.from, s.created)
	switch {
	case p.stored:
		return []layer{storedValues{p.from.path, r.stored}}, "", nil
	case r.own != nil:
		return r.own(ctx, s, p.from)
	}
	c, err := s.column(ctx, p.from.path)
	switch {
	case c == nil || err != nil:
		return nil, "", err
	case r.bound != nil:
		return []layer{&ranges{c, r.bound}}, expect(c, columns.Binary), nil
	case p.from.kind == "binary":
		return s.binaryLayers(ctx, p.from)
	case r.number != nil:
		return []layer{&numbers{column: c, render: r.number, unsigned: r.unsigned}}, expect(c, columns.Numeric, columns.SortedNumeric), nil
	}
	return []layer{&terms{column: c, render: r.text}}, expect(c, columns.Sorted, columns.SortedSet), nil
}

func (fields) source(ctx context.Context, s *segment, dst []byte) ([]byte, error) {
	body, some, err := s.object(ctx, dst, s.root)
	if err == nil && !some {
		body = append(dst, "{}"...)
	}
	return body, err
}

// renders holds the writers of a type's values, by form of storage.
type renders struct {
	number   renderNumber
	text     renderBytes
	stored   renderStored
	bound    renderBound
	unsigned bool
	own      func(ctx context.Context, s *segment, f *node) ([]layer, string, error) // of types whose columns are the same as in synthetic sources
}

// columns reports whether the type can be read from doc values.
func (r renders) columns() bool {
	return r.number != nil || r.text != nil || r.bound != nil || r.own != nil
}

// bigHistograms is the first version whose histograms can be in synthetic sources; the byte order of the values of earlier ones is unknown.
const bigHistograms = 8_05_00_00

// version5 is the first version with the current form of addresses and points, hashedPoints the first with points as one number; openSearch
// is a bit of the versions of OpenSearch.
const (
	hashedPoints = 2_02_00_00
	version5     = 5_00_00_00
	openSearch   = 0x08000000
)

// rendersOf returns the writers of a field's values in an index created by a version; none for unknown types.
func rendersOf(f *node, created int64) renders {
	switch f.kind {
	case "string":
		return renders{text: appendUTF8, stored: storedText8}
	case "text":
		return renders{stored: storedText8}
	case "binary":
		return renders{text: appendBase64, stored: storedTerm(appendBase64)}
	case "ip":
		if created < version5 {
			return renders{number: appendIPv4, stored: storedNumber(appendIPv4)}
		}
	case "geo_point":
		switch {
		case created < hashedPoints:
			return renders{stored: storedGeo}
		case created < version5:
			return renders{number: appendGeoHash, stored: storedNumber(appendGeoHash)}
		}
	case "wildcard":
		if created&openSearch == 0 {
			return renders{own: synthetic{}.layers}
		}
	case "version":
		return renders{text: appendVersion}
	case "aggregate_metric_double":
		return renders{own: synthetic{}.layers}
	case "histogram":
		if created >= bigHistograms {
			return renders{own: synthetic{}.layers}
		}
	case "unsigned_long":
		number := appendUnsigned
		if created&openSearch == 0 {
			number = func(dst []byte, v int64) []byte { return appendUnsigned(dst, v^math.MinInt64) }
		}
		return renders{number: number, stored: storedDigits, unsigned: created&openSearch != 0}
	case "long_range", "integer_range", "date_range", "double_range", "float_range", "ip_range":
		return renders{bound: boundOf(f, losslessFormat(f.params.Format))}
	}
	number, text, stored := typeRenders(f, func(f *node) renderNumber { return momentsOf(f, losslessFormat(f.params.Format)) })
	return renders{number: number, text: text, stored: stored}
}

// appendIPv4 appends an address in the form of versions before 5.
func appendIPv4(dst []byte, v int64) []byte {
	if v < 0 || v > math.MaxUint32 {
		return dst
	}
	dst = netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).AppendTo(append(dst, '"'))
	return append(dst, '"')
}

// appendGeoHash appends a point in the form of versions 2.2 to 4: 31 bits of the range of each coordinate, longitude in the even bits,
// latitude in the odd ones.
func appendGeoHash(dst []byte, v int64) []byte {
	var lat, lon uint32
	for i := range 31 {
		lon |= uint32(v>>(2*i)&1) << i
		lat |= uint32(v>>(2*i+1)&1) << i
	}
	dst = appendDouble(append(dst, `{"lat":`...), float64(lat)*(180.0/(1<<31))-90)
	dst = appendDouble(append(dst, `,"lon":`...), float64(lon)*(360.0/(1<<31))-180)
	return append(dst, '}')
}
