package lucene

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// Names of the columns that decide whether a document is visible.
const (
	softDeletes = "__soft_deletes" // a document that has a value is soft-deleted
	primaryTerm = "_primary_term"  // every root document has a value, no nested one (ReadOptions.NestedTerms: nested ones, too)
)

// rootTest says whether a document without a stored id is a root document.
type rootTest struct {
	known bool   // there is a column _primary_term
	docs  bitset // its documents; nil: all
}

// isRoot is asked for live documents without a stored id. Without the column they are
// nested children; one whose column cannot be read counts as root, so that it is reported
// and not lost.
func (s *Segment) isRoot(doc int32) bool {
	return s.roots.known && (s.roots.docs == nil || s.roots.docs.get(doc))
}

const (
	// wholeDocValues is the length up to which a .dvd file of the segment is read whole.
	wholeDocValues = 4 << 20
	// wholeDocValuesPart is the part of .fdt up to which it is, 1 in that many bytes.
	wholeDocValuesPart = 50
)

// readColumns gives the soft-deleted documents, nil when there are none, and finds out
// which documents are roots.
func (o *segmentOpener) readColumns(ctx context.Context, fi *fieldInfos) (bitset, error) {
	var soft bitset
	if f := fi.numeric(softDeletes); f != nil && o.entry.softDelCount != 0 {
		c, err := o.openColumn(ctx, fi, f)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, fmt.Errorf("%s: soft deletes in doc values of format %q are not known: %w",
				o.seg.Name, f.attrs[attrFormat], fault.ErrUnsupported)
		}
		if soft, err = c.docs(ctx); err != nil {
			return nil, err
		}
	}
	if f := fi.numeric(primaryTerm); f != nil {
		o.seg.roots.known = true
		c, err := o.openColumn(ctx, fi, f)
		if err != nil || c == nil {
			return soft, err
		}
		docs, err := c.docs(ctx)
		if err != nil {
			return nil, err
		}
		if docs.count() < o.seg.MaxDoc {
			o.seg.roots.docs = docs
		}
	}
	return soft, nil
}

// column is one numeric doc-values field.
type column struct {
	opener *segmentOpener
	field  *fieldInfo
	data   *source // .dvd
	entry  numericEntry
	le     bool
}

const (
	attrFormat = "PerFieldDocValuesFormat.format"
	attrSuffix = "PerFieldDocValuesFormat.suffix"
)

// openColumn finds the files of a field and its entry in .dvm; nil when its format is not
// one of those that can be read. The generation is that of the field: a later file holds
// the complete column.
func (o *segmentOpener) openColumn(ctx context.Context, fi *fieldInfos, f *fieldInfo) (*column, error) {
	format := f.attrs[attrFormat]
	if !knownDocValues[format] {
		return nil, nil
	}
	suffix := format + "_" + f.attrs[attrSuffix]
	find := func(ext string) (*source, error) {
		if f.dvGen >= 0 {
			return o.seg.files.later(f.dvGen, "_"+suffix+ext)
		}
		return o.seg.files.core("_" + suffix + ext)
	}
	meta, err := find(".dvm")
	if err != nil {
		return nil, err
	}
	b, err := meta.readAll(ctx)
	if err != nil {
		return nil, err
	}
	want := suffix
	if f.dvGen >= 0 {
		want = codec.Base36(f.dvGen) + "_" + suffix
	}
	entries, err := parseDocValuesMeta(b, o.seg.id, want, fi.fields)
	if err != nil {
		return nil, meta.wrap(err)
	}
	e, ok := entries[f.number]
	if !ok {
		return nil, meta.corrupt(-1, "there is no column %s", f.name)
	}
	data, err := find(".dvd")
	if err != nil {
		return nil, err
	}
	return &column{opener: o, field: f, data: data, entry: e, le: format == "Lucene90"}, nil
}

// docs is the set of documents that have a value.
func (c *column) docs(ctx context.Context) (bitset, error) {
	e, maxDoc := c.entry, int32(c.opener.seg.MaxDoc)
	out := newBitset(maxDoc)
	switch {
	case e.off == setNone && e.values == 0:
		return out, nil
	case e.off == setAll && e.values == int64(maxDoc):
		out.fill(maxDoc)
		return out, nil
	case e.off < 0 || e.size < 0 || e.off > c.data.size || e.size > c.data.size-e.off || e.values > int64(maxDoc):
		return nil, c.data.corrupt(-1, "column %s of %d values for %d documents at %d", c.field.name, e.values, maxDoc, e.off)
	}
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	n, err := parseSet(p, c.le, e.rankPower, maxDoc, out.set)
	if err != nil {
		return nil, c.data.wrapAt(err, e.off)
	}
	if n != e.values {
		return nil, c.data.corrupt(e.off, "column %s of %d documents has %d values", c.field.name, n, e.values)
	}
	return out, nil
}

// read gives the bytes of the set: out of the whole, verified file when it is small, later
// than the segment or wanted so, else only those.
func (c *column) read(ctx context.Context) ([]byte, error) {
	e := c.entry
	limit := max(wholeDocValues, c.opener.seg.StoredSize/wholeDocValuesPart)
	whole := c.field.dvGen >= 0 || c.data.size <= limit
	if !whole {
		if !c.opener.all {
			c.opener.note(c.data.name + ": only the column " + c.field.name + " is read")
		}
		return c.data.readAt(ctx, e.off, e.size)
	}
	b, err := c.data.readAll(ctx)
	if err != nil {
		return nil, err
	}
	in := codec.NewInput(b)
	in.Header()
	checkID(in, c.opener.seg.id)
	if in.Err() != nil {
		return nil, c.data.wrap(in.Err())
	}
	return b[e.off : e.off+e.size], nil
}

func (o *segmentOpener) note(what string) { o.unverified = append(o.unverified, what) }
