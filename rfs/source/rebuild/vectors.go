package rebuild

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// littleEndian is the version from which on vectors that are not indexed have little-endian numbers.
const littleEndian = 8_09_00_99

// suffixMagnitude is the suffix of the column with the magnitudes of vectors, which are indexed with magnitude 1 if their similarity is the
// cosine.
const suffixMagnitude = "._magnitude"

// vectorKinds are the types of vectors.
var vectorKinds = []string{"dense_vector", "sparse_vector", "rank_vectors"}

// vector is a column of vectors: the numbers, followed in vectors that are not indexed by the magnitude in four bytes, or by nothing.
type vector struct {
	column    *lucene.Column
	magnitude *lucene.Column // nil: the numbers are as they were sent
	dims      int            // numbers of a vector
	width     int            // bytes of each
	order     binary.ByteOrder
	indexed   bool
	rows      bool // several vectors, each of dims numbers
}

// elements returns the number of elements of a vector and their length in bytes, 0 if the element type is unknown.
func (p *params) elements() (dims, width int) {
	switch p.ElementType {
	case "", "float":
		return p.Dims, 4
	case "bfloat16":
		return p.Dims, 2
	case "byte":
		return p.Dims, 1
	case "bit":
		return p.Dims / 8, 1
	}
	return p.Dims, 0
}

// vectorLayers returns the layers of a vector: in a file of vectors if it is indexed, else in doc values.
func (s *segment) vectorLayers(ctx context.Context, f *node) ([]layer, string, error) {
	l := &vector{order: binary.LittleEndian, indexed: f.kind == "dense_vector" && f.params.indexed(s.created), rows: f.kind == "rank_vectors"}
	if s.created < littleEndian && !l.indexed && !l.rows {
		l.order = binary.BigEndian
	}
	if l.dims, l.width = f.params.elements(); l.width == 0 {
		return nil, "the type of its elements is unknown", nil
	}
	var err error
	switch {
	case l.indexed:
		if l.column, err = s.values.Vector(ctx, f.path); err == nil {
			l.magnitude, err = s.column(ctx, f.path+suffixMagnitude)
		}
	default:
		l.column, err = s.column(ctx, f.path)
	}
	if l.column == nil || err != nil {
		return nil, "", err
	}
	if l.dims <= 0 {
		return nil, "the mapping does not have its dimension", nil
	}
	unknown := expect(l.column, columns.Binary)
	if l.magnitude != nil && unknown == "" {
		unknown = expect(l.magnitude, columns.Numeric)
	}
	return []layer{l}, unknown, nil
}

func (l *vector) load(ctx context.Context, s *segment, out *values) error {
	n, err := l.column.Advance(ctx, s.doc)
	if err != nil || n == 0 {
		return err
	}
	b, err := l.column.Bytes(ctx, 0)
	if err != nil {
		return err
	}
	magnitude := float32(0)
	if l.magnitude != nil {
		if n, err = l.magnitude.Advance(ctx, s.doc); err != nil {
			return err
		}
		if n > 0 {
			v, err := l.magnitude.Number(ctx, 0)
			if err != nil {
				return err
			}
			magnitude = math.Float32frombits(uint32(v))
		}
	}
	return l.all(b, magnitude, out)
}

// all appends the vector of a document, or its vectors.
func (l *vector) all(b []byte, magnitude float32, out *values) error {
	out.array = true
	size := l.dims * l.width
	switch rest := len(b) - size; {
	case l.rows && len(b)%size == 0:
		for ; len(b) > 0; b = b[size:] {
			if err := out.next(); err != nil {
				return err
			}
			row := values{b: append(out.b, '['), most: out.most}
			if err := l.write(b[:size], 0, &row); err != nil {
				return err
			}
			out.b = append(row.b, ']')
		}
		return nil
	case !l.rows && (rest == 0 || rest == 4 && !l.indexed):
		return l.write(b[:size], magnitude, out)
	}
	return codec.Errorf(0, "vector of %d numbers in %d bytes", l.dims, len(b))
}

// write appends the numbers of one vector, multiplied by magnitude; 0 leaves them unchanged.
func (l *vector) write(b []byte, magnitude float32, out *values) error {
	for ; len(b) > 0; b = b[l.width:] {
		if err := out.next(); err != nil {
			return err
		}
		var v float32
		switch l.width {
		case 4:
			v = math.Float32frombits(l.order.Uint32(b))
		case 2:
			v = math.Float32frombits(uint32(l.order.Uint16(b)) << 16)
		default:
			out.b = strconv.AppendInt(out.b, int64(int8(b[0])), 10)
			continue
		}
		if magnitude != 0 {
			v *= magnitude
		}
		out.b = appendFloat(out.b, float64(v), 32)
	}
	return nil
}

// fieldNames is the field whose terms are the names of the fields of a document that no other structure records.
const fieldNames = "_field_names"

// features is a sparse vector: the terms of the field. The frequency of each holds the highest 17 bits of its number. (The cluster reads it
// from term vectors, which hold the same.)
type features struct {
	terms *lucene.Features // nil if no document of the segment has a term
	names *lucene.Text     // of documents with an empty vector; nil if these are unknown
	path  []byte
}

// sparseLayers returns the layers of a sparse vector that is stored.
func (s *segment) sparseLayers(ctx context.Context, f *node) ([]layer, string, error) {
	l := &features{path: []byte(f.path)}
	var err error
	if l.terms, err = s.values.Features(ctx, f.path, s.sparse()); err != nil {
		return nil, "", err
	}
	if s.created >= keepsOriginals {
		if l.names, err = s.values.Terms(ctx, fieldNames); err != nil {
			return nil, "", err
		}
	}
	if l.terms == nil && l.names == nil {
		return nil, "", nil
	}
	return []layer{l}, "", nil
}

// sparse returns the number of sparse vectors in the mapping.
func (r *Rebuilder) sparse() (n int) {
	r.root.walk(func(f *node) {
		if f.kind == "sparse_vector" {
			n++
		}
	})
	return n
}

func (l *features) load(ctx context.Context, s *segment, out *values) error {
	var tokens []postings.Token
	var err error
	if l.terms != nil {
		if tokens, err = l.terms.Of(ctx, s.doc); err != nil {
			return err
		}
	}
	if len(tokens) == 0 {
		if l.names == nil {
			return nil
		}
		names, err := l.names.Tokens(ctx, s.doc)
		if err != nil || !slices.ContainsFunc(names, func(t postings.Token) bool { return bytes.Equal(t.Term, l.path) }) {
			return err
		}
	}
	slices.SortFunc(tokens, func(a, b postings.Token) int { return bytes.Compare(a.Term, b.Term) })
	if err := out.next(); err != nil {
		return err
	}
	out.b = append(out.b, '{')
	for i, t := range tokens {
		if i > 0 {
			out.b = append(out.b, ',')
		}
		v := math.Float32frombits(uint32(t.Position) << 15)
		if t.Position <= 0 || t.Position > math.MaxUint16 || math.IsNaN(float64(v)) {
			return &Unknown{Reason: "a number that a sparse vector cannot have"}
		}
		out.b = append(appendText(out.b, t.Term), ':')
		out.b = appendFloat(out.b, float64(v), 32)
		if err := fits(len(out.b), out.most); err != nil {
			return err
		}
	}
	out.b = append(out.b, '}')
	return nil
}
