// Package rebuild rebuilds sources that are not stored, as the cluster itself would return them: from doc values, stored fields and what
// Elasticsearch keeps in addition (_ignored_source). It supports the synthetic source of Elasticsearch and the derived source of
// OpenSearch.
package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// Unknown is the reason why the source of one document cannot be rebuilt: a field has a value that is not understood.
type Unknown struct {
	Field, Type string // Type is "" if the value belongs to no field of the mapping
	Reason      string
}

func (u *Unknown) Error() string {
	if u.Type == "" {
		return fmt.Sprintf("the source cannot be rebuilt: %s: %s", u.Field, u.Reason)
	}
	return fmt.Sprintf("the source cannot be rebuilt: field %s of type %s: %s", u.Field, u.Type, u.Reason)
}

// ErrTooLong reports a source that would exceed the limit of Rebuilder.Bound.
var ErrTooLong = errors.New("the rebuilt source exceeds the length that is read")

// Rebuilder writes the sources of an index, segment by segment. It belongs to one goroutine.
type Rebuilder struct {
	root    *node
	created int64 // version of the cluster that created the index
	convert converter
	plain   func(dst, source []byte) ([]byte, error) // converts a source in another format to JSON; for patched sources
	dialect dialect
	places  map[string]place // of fields; nil unless the dialect is fields
	lenient bool             // values that the mapping does not explain are omitted
	whole   bool             // the source is one value in _ignored_source
	most    int              // maximum length of a source, in bytes; 0: no limit
	seg     *lucene.Segment
	bound   *segment
}

// dialect rebuilds sources for one product and mode.
type dialect interface {
	// layers returns the layers that hold the values of a field in a segment; unknown is the reason if they cannot be read.
	layers(ctx context.Context, s *segment, f *node) (layers []layer, unknown string, err error)
	// claims returns the names of Lucene fields that belong to a field of the mapping.
	claims(f *node) []string
	// reserved reports whether a column whose name starts with _ belongs to the cluster, not to a source.
	reserved(name string) bool
	// source appends the source of the current document.
	source(ctx context.Context, s *segment, dst []byte) ([]byte, error)
}

// New returns the Rebuilder for an index with synthetic source; created is the version that created it, and convert converts CBOR, SMILE
// and YAML to JSON.
func New(mapping json.RawMessage, created int64, convert func(dst []byte, format byte, source []byte) ([]byte, error)) (*Rebuilder, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnsupported)
	}
	root.addCount()
	return &Rebuilder{root: root, created: created, convert: convert, dialect: synthetic{}}, nil
}

// longValues is the number of copies of the longest source that columns may hold as values: compressed and decompressed.
const longValues = 2

// Bound limits the following sources to most bytes. A longer source, or a source that takes several times that memory to build, is
// ErrTooLong. 0 means no limit.
func (r *Rebuilder) Bound(most int64) { r.most = int(min(most, math.MaxInt)) }

// boundValues sets the limit of long values in columns from the limit of a source.
func (r *Rebuilder) boundValues(v *lucene.Values) {
	if r.most == 0 {
		v.Bound(math.MaxInt64)
		return
	}
	v.Bound(longValues * int64(r.most))
}

// Forget releases the memory of the last source.
func (r *Rebuilder) Forget() { r.seg, r.bound = nil, nil }

// Append appends the source of the document that v describes. Its error is an *Unknown if only this document cannot be rebuilt.
func (r *Rebuilder) Append(ctx context.Context, dst []byte, v *lucene.Values) ([]byte, error) {
	r.boundValues(v)
	if err := r.use(ctx, v); err != nil {
		return nil, err
	}
	out, err := r.bound.source(ctx, dst, v)
	if err == nil {
		err = fits(len(out)-len(dst), r.most)
	}
	return out, unknownValue(err)
}

// use binds the mapping to the segment of a document.
func (r *Rebuilder) use(ctx context.Context, v *lucene.Values) error {
	if r.seg == v.Segment() {
		return nil
	}
	bound, err := r.bind(ctx, v)
	if err != nil {
		return err
	}
	r.seg, r.bound = v.Segment(), bound
	return nil
}

// unknownValue converts an error in the values of a document to an *Unknown; damage of files stays a fault.Damage.
func unknownValue(err error) error {
	if errors.Is(err, columns.ErrLong) {
		return ErrTooLong
	}
	if e, ok := errors.AsType[*codec.Error](err); ok {
		return &Unknown{Field: "_ignored_source or a stored value", Reason: e.Error()}
	}
	return err
}

// segment is the mapping bound to the columns of one segment.
type segment struct {
	*Rebuilder
	values    *lucene.Values
	leaves    map[string]*leaf
	strangers []*stranger
	known     map[string]bool // names of fields that belong to the mapping
	ignored   *lucene.Column  // _ignored_source as terms, or nil
	kept      *blobs          // _ignored_source as bytes, or nil
	stored    map[string][]lucene.StoredValue
	entries   map[string][]ignored // by the path of their object
	nested    []*node              // the nested objects of the mapping
	paths     *lucene.Text         // of nested documents; nil until needed
	pending   map[string][][]byte  // rebuilt nested objects by path, until their parent is rebuilt
	probing   bool                 // nested objects are omitted
	original  bool                 // fields that the filter excludes are added, too
	scratch   values
	doc       int32
}

// leaf is one field in a segment.
type leaf struct {
	*node
	layers  []layer
	unknown string         // why its values cannot be read
	present *lucene.Column // of an unknown field: which documents have a value; nil if that is unknown
}

// stranger is a column that belongs to no field of the mapping.
type stranger struct {
	name   string
	column *lucene.Column
}

// layer is one source of the values of a field.
type layer interface {
	load(ctx context.Context, s *segment, out *values) error
}

// values are the values of one field as JSON, with commas.
type values struct {
	b     []byte
	n     int
	array bool // written as an array regardless of their number
	most  int  // bytes; 0: no limit
}

func (v *values) reset(most int) { v.b, v.n, v.array, v.most = v.b[:0], 0, false, most }

// next starts a value.
func (v *values) next() error {
	if v.n > 0 {
		v.b = append(v.b, ',')
	}
	v.n++
	return fits(len(v.b), v.most)
}

// fits returns ErrTooLong if n exceeds most bytes; 0 means no limit.
func fits(n, most int) error {
	if most > 0 && n > most {
		return ErrTooLong
	}
	return nil
}

// bind opens the columns of all fields in a segment.
func (r *Rebuilder) bind(ctx context.Context, v *lucene.Values) (*segment, error) {
	s := &segment{Rebuilder: r, values: v, leaves: map[string]*leaf{}, known: map[string]bool{}, stored: map[string][]lucene.StoredValue{},
		nested: r.root.findNested(nil), pending: map[string][][]byte{}}
	var err error
	if s.kept, err = s.blobsOf(ctx, "_ignored_source"); err != nil {
		return nil, err
	}
	if s.kept == nil {
		if s.ignored, err = s.column(ctx, "_ignored_source"); err != nil {
			return nil, err
		}
	}
	if r.whole {
		return s, nil
	}
	r.root.walk(func(f *node) {
		if err != nil {
			return
		}
		for _, name := range append(r.dialect.claims(f), f.path) {
			s.known[name] = true
		}
		for _, m := range f.multi {
			s.known[m.path] = true
			for _, name := range r.dialect.claims(m) {
				s.known[name] = true
			}
		}
		err = s.bindLeaf(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	if r.lenient {
		return s, nil
	}
	return s, s.bindStrangers(ctx)
}

// expected is the reason to refuse a field that has values in its column although its type keeps them elsewhere.
const expected = "its values are expected in _ignored_source, where they are not"

func (s *segment) bindLeaf(ctx context.Context, f *node) error {
	if !s.mentioned(f) {
		return nil
	}
	l := &leaf{node: f}
	var err error
	l.layers, l.unknown, err = s.dialect.layers(ctx, s, f)
	if errors.Is(err, fault.ErrUnsupported) {
		l.layers, l.unknown, err = nil, err.Error(), nil
	}
	if err != nil {
		return err
	}
	known, column := s.values.Has(f.path)
	if column && len(l.layers) == 0 && l.unknown == "" && !s.lenient && f.kind != "alias" && len(f.params.Script) == 0 {
		l.unknown = expected
	}
	if l.unknown != "" && column {
		if l.present, err = s.column(ctx, f.path); err != nil && !errors.Is(err, fault.ErrUnsupported) {
			return err
		}
	}
	if len(l.layers) > 0 || l.unknown != "" && known {
		s.leaves[f.path] = l
	}
	return nil
}

// mentioned reports whether the segment has any field that can hold values of f.
func (s *segment) mentioned(f *node) bool {
	for _, x := range slices.Concat([]*node{f}, f.multi, f.children) {
		for _, name := range append(s.dialect.claims(x), x.path) {
			if known, _ := s.values.Has(name); known {
				return true
			}
		}
	}
	return false
}

// bindStrangers opens the columns that the mapping does not explain.
func (s *segment) bindStrangers(ctx context.Context) error {
	var names []string
	s.values.Names(func(name string) {
		_, column := s.values.Has(name)
		if name == docCount && !s.known[name] || column && !s.known[name] && (name[:min(1, len(name))] != "_" || !s.dialect.reserved(name)) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	for _, name := range names {
		c, err := s.column(ctx, name)
		if err != nil && !errors.Is(err, fault.ErrUnsupported) {
			return err
		}
		s.strangers = append(s.strangers, &stranger{name, c})
	}
	return nil
}

// column returns the column of a field, or nil if it has none.
func (s *segment) column(ctx context.Context, name string) (*lucene.Column, error) {
	return s.values.Column(ctx, name)
}

// source appends the source of a root document.
func (s *segment) source(ctx context.Context, dst []byte, v *lucene.Values) ([]byte, error) {
	s.values = v
	if s.whole {
		return s.wholeSource(ctx, dst, v)
	}
	if err := s.readChildren(ctx, v); err != nil {
		return nil, err
	}
	if err := s.load(ctx, v); err != nil {
		return nil, err
	}
	return s.dialect.source(ctx, s, dst)
}

// load makes a document the current one.
func (s *segment) load(ctx context.Context, d document) error {
	s.doc = d.DocID()
	clear(s.stored)
	if err := d.Stored(s.take); err != nil {
		return err
	}
	if s.lenient {
		return nil // nothing is kept in addition to the fields
	}
	if err := s.readIgnored(ctx); err != nil {
		return err
	}
	for _, x := range s.strangers {
		n := 1
		if x.column != nil {
			var err error
			if n, err = x.column.Advance(ctx, s.doc); err != nil {
				return err
			}
		}
		if n > 0 {
			return &Unknown{Field: x.name, Reason: "a column that belongs to no field of the mapping"}
		}
	}
	return nil
}

// take keeps a stored value by name; its bytes are valid as long as the document.
func (s *segment) take(x lucene.StoredValue) error {
	if !s.known[x.Name] && x.Name != "_ignored_source" {
		if x.Name[:min(1, len(x.Name))] == "_" || s.lenient {
			return nil
		}
		return &Unknown{Field: x.Name, Reason: "a stored field that belongs to no field of the mapping"}
	}
	s.stored[x.Name] = append(s.stored[x.Name], x)
	return nil
}

// disabledRoot appends the source of an index with a disabled mapping, which is kept whole.
func (s *segment) disabledRoot(dst []byte) ([]byte, error) {
	entries := s.entries[""]
	if len(entries) != 1 {
		return nil, &Unknown{Field: "_ignored_source", Reason: fmt.Sprintf("%d values of a mapping that is switched off", len(entries))}
	}
	return appendIgnored(dst, entries[0].value, s.convert)
}

// wholeSource appends a source that the cluster built when the document was indexed and stored as one value.
func (s *segment) wholeSource(ctx context.Context, dst []byte, d document) ([]byte, error) {
	s.doc = d.DocID()
	if err := s.readIgnored(ctx); err != nil {
		return nil, err
	}
	if all := s.entries[""]; len(all) == 1 && all[0].name == "_source" && !all[0].void() {
		from := len(dst)
		out, err := appendIgnored(dst, all[0].value, s.convert)
		if err != nil {
			return nil, err
		}
		return escapeHigh(out, from), nil
	}
	return nil, &Unknown{Field: "_ignored_source", Reason: "it does not hold the source"}
}

// readIgnored groups the entries of _ignored_source by object.
func (s *segment) readIgnored(ctx context.Context) error {
	s.entries = nil
	take := func(x ignored) {
		if s.entries == nil {
			s.entries = map[string][]ignored{}
		}
		s.entries[x.parent] = append(s.entries[x.parent], x)
	}
	for _, x := range s.stored["_ignored_source"] {
		if x.Kind != lucene.StoredBytes {
			return codec.Errorf(0, "ignored source of type %d", x.Kind)
		}
		if err := parseEntry(x.Bytes, take); err != nil {
			return err
		}
	}
	if s.kept != nil {
		return s.kept.each(ctx, s.doc, func(b []byte) error { return parseEntry(slices.Clone(b), take) })
	}
	if s.ignored == nil {
		return nil
	}
	n, err := s.ignored.Advance(ctx, s.doc)
	if err != nil {
		return err
	}
	for i := range n {
		b, err := s.ignored.Bytes(ctx, i)
		if err != nil {
			return err
		}
		if err := parseCoalesced(slices.Clone(b), take); err != nil {
			return err
		}
	}
	return nil
}

// parseEntry parses a stored entry in either form. An entry that fits both is an error; that can only happen by accident.
func parseEntry(b []byte, yield func(ignored)) error {
	var all []ignored
	coalesced := parseCoalesced(b, func(x ignored) { all = append(all, x) })
	x, plain := parsePlain(b)
	switch {
	case coalesced == nil && plain == nil:
		return codec.Errorf(0, "an ignored source that can be read in two ways")
	case coalesced == nil:
		for _, x := range all {
			yield(x)
		}
	case plain == nil:
		yield(x)
	default:
		return plain
	}
	return nil
}
