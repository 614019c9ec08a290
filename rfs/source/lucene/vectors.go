package lucene

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// vectorFiles are the files of indexed vectors of a segment, by format and suffix, and the opened columns, by field.
type vectorFiles struct {
	parsed map[string]*columnFile
	opened map[string]*Column
}

// Vector returns the indexed vectors of a field as a column of bytes, or nil if no document of the segment has one. The file is verified
// before its first vector is returned.
func (v *Values) Vector(ctx context.Context, name string) (*Column, error) {
	if c, ok := v.vectors.opened[name]; ok {
		return c, nil
	}
	f := v.infos.byName[name]
	if f == nil || f.vector.Dimension == 0 {
		return nil, nil
	}
	format := f.attrs[attrVectors]
	suffix := format + "_" + f.attrs[attrVectorsSuffix]
	file := v.vectors.parsed[suffix]
	if file == nil {
		ext := ".vemf"
		switch {
		case v.has("_" + suffix + ext):
		case earlyVectors[format]:
			ext = ".vem"
		default:
			return nil, fmt.Errorf("field %s: vectors of format %q are unknown: %w", name, format, fault.ErrUnsupported)
		}
		var err error
		if file, err = v.parseVectors(ctx, suffix, ext); err != nil {
			return nil, err
		}
		if v.vectors.parsed == nil {
			v.vectors = vectorFiles{map[string]*columnFile{}, map[string]*Column{}}
		}
		v.vectors.parsed[suffix] = file
	}
	e := file.entries[f.number]
	if e == nil {
		return nil, fault.Corrupt("", file.name, -1, "field %s has no vectors", name)
	}
	c := &column{field: f, entry: e, columnData: file.data}
	if err := c.verify(ctx); err != nil {
		return nil, err
	}
	r, err := e.NewReader(valuesData{c.columnData, v}, int32(v.seg.MaxDoc))
	if err != nil {
		return nil, c.wrap(err)
	}
	v.vectors.opened[name] = &Column{c, r}
	return v.vectors.opened[name], nil
}

// earlyVectors are the formats that keep the metadata of vectors and graph in the same file, .vem.
var earlyVectors = map[string]bool{"Lucene94HnswVectorsFormat": true, "Lucene95HnswVectorsFormat": true}

// parseVectors opens the files that the fields of a format and suffix share; ext is the extension of the metadata.
func (v *Values) parseVectors(ctx context.Context, suffix, ext string) (*columnFile, error) {
	meta, err := v.seg.files.core("_" + suffix + ext)
	if err != nil {
		return nil, err
	}
	b, err := meta.readAll(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := columns.ParseVectors(b, v.seg.id, suffix, func(number int32) (columns.Vector, bool) {
		f := v.infos.fields[number]
		if f == nil || f.vector.Dimension == 0 {
			return columns.Vector{}, false
		}
		return f.vector, true
	})
	if err != nil {
		return nil, meta.wrap(err)
	}
	data, err := v.seg.files.core("_" + suffix + ".vec")
	if err != nil {
		return nil, err
	}
	return &columnFile{name: meta.name, entries: entries, data: &columnData{data: data, id: v.seg.id}}, nil
}

// Features reads a field whose terms each have a number, stored as their frequency.
type Features struct{ text *Text }

// Features returns the terms of a field with their numbers, or nil if no document of the segment has a term. The given number of fields
// share the memory. The files are verified before Features returns.
func (v *Values) Features(ctx context.Context, name string, fields int) (*Features, error) {
	f := v.infos.byName[name]
	if f != nil && f.indexed && (f.index.Positions || !f.index.Frequencies) {
		return nil, fmt.Errorf("field %s: its terms have no numbers: %w", name, fault.ErrUnsupported)
	}
	text, err := v.terms(ctx, name, heldText/int64(max(fields, 1)))
	if text == nil || err != nil {
		return nil, err
	}
	return &Features{text}, nil
}

// Of returns the terms of a document in no particular order; Position is the number of a term. The result is valid until the next call. It
// returns columns.ErrLong if a document has more terms than fit in memory.
func (f *Features) Of(ctx context.Context, doc int32) ([]postings.Token, error) {
	return f.text.Tokens(ctx, doc)
}
