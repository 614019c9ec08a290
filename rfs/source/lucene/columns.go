package lucene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// Names of the columns that decide whether a document is visible.
const (
	softDeletes = "__soft_deletes" // a document that has a value is soft-deleted
	primaryTerm = "_primary_term"  // every root document has a value, no nested one (ReadOptions.NestedTerms: nested ones, too)
)

// rootTest decides whether a document without a stored id is a root document.
type rootTest struct {
	known bool   // the segment has a column _primary_term
	docs  bitset // the documents with a value; nil: all, or not held
}

const (
	// wholeDocValues is the length up to which a .dvd file is read whole and kept in memory; a longer one is read by ranges.
	wholeDocValues = 1 << 20
	// wholeDocValuesPart is the ratio of the lengths of .fdt and .dvd from which on a longer .dvd is verified, too.
	wholeDocValuesPart = 50
	// partDocValues is the length up to which a .dvd file is verified when only a part of it is needed (Options.Parts, Roots).
	partDocValues = 64 << 10
)

// findColumns returns the verified columns that mark the soft-deleted documents and the roots. soft is nil if no document is soft-deleted;
// roots is nil if the segment lacks it, if all documents have a value, or if it has an unknown format. A live document without a stored id
// is a root if it has a value in roots, and nested if the segment lacks that column. If the format is unknown, the document counts as a
// root, so that it is reported and not lost.
func (o *segmentOpener) findColumns(ctx context.Context, fi *fieldInfos) (soft, roots *column, err error) {
	metas := columnMetas{seg: o.seg, fields: fi, only: []string{softDeletes, primaryTerm}, long: &o.long}
	if f := fi.numeric(softDeletes); f != nil && o.entry.softDelCount != 0 {
		if soft, err = metas.open(ctx, f); err != nil {
			return nil, nil, err
		}
		if soft == nil {
			return nil, nil, fmt.Errorf("%s: soft deletes in doc values of format %q are unknown: %w",
				o.seg.Name, f.attrs[attrFormat], fault.ErrUnsupported)
		}
		if _, none := soft.entry.Everywhere(int32(o.seg.MaxDoc)); none {
			soft = nil
		} else if err := o.verify(ctx, soft); err != nil {
			return nil, nil, err
		}
	}
	if f := fi.numeric(primaryTerm); f != nil {
		o.seg.roots.known = true
		c, err := metas.open(ctx, f)
		if errors.Is(err, fault.ErrUnsupported) {
			return soft, nil, nil // an unknown form of a known format
		}
		if err != nil || c == nil {
			return soft, nil, err
		}
		if all, _ := c.entry.Everywhere(int32(o.seg.MaxDoc)); all {
			return soft, nil, nil
		}
		if err := o.verify(ctx, c); err != nil {
			return nil, nil, err
		}
		roots = c
	}
	return soft, roots, nil
}

// verify verifies the file of a column that only some documents have a value in, if the file is short, short compared with .fdt, or later
// than the segment. Of other files only the set of documents is read; unless Options.VerifyAll has verified them, they are listed as
// unverified.
func (o *segmentOpener) verify(ctx context.Context, c *column) error {
	if all, none := c.entry.Everywhere(int32(o.seg.MaxDoc)); all || none {
		return nil
	}
	most := max(wholeDocValues, o.seg.StoredSize/wholeDocValuesPart)
	if o.parts {
		most = partDocValues
	}
	if c.field.dvGen >= 0 || c.data.size <= most {
		return c.verify(ctx)
	}
	if !o.all {
		o.unverified = append(o.unverified, c.data.name+": only the column "+c.field.name+" is read")
	}
	return nil
}

// column is one field of doc values: its entry in .dvm and its file .dvd.
type column struct {
	field *fieldInfo
	entry *columns.Entry
	*columnData
}

// columnData is a .dvd file, which the columns in it share.
type columnData struct {
	data  *source
	id    string // of the segment
	whole []byte // nil: read by parts
	sound bool   // the file was verified
	// unsummed is set if the file has no footer and was not verified with its .dvm as a part of the same compound file.
	unsummed bool
}

// ReadAt returns n bytes at off.
func (d *columnData) ReadAt(ctx context.Context, off, n int64) ([]byte, error) {
	if d.whole == nil {
		return d.data.readAt(ctx, off, n)
	}
	if off < 0 || n < 0 || off > int64(len(d.whole)) || n > int64(len(d.whole))-off {
		return nil, d.data.corrupt(off, "%d bytes wanted of a file of %d", n, len(d.whole))
	}
	return d.whole[off : off+n], nil
}

// Size returns the length of the file.
func (d *columnData) Size() int64 { return d.data.size }

// readWhole reads the file and checks it.
func (d *columnData) readWhole(ctx context.Context) error {
	b, err := d.data.readAll(ctx)
	if err != nil {
		return err
	}
	d.whole = b
	return d.checkHeader(b)
}

// verify verifies the whole file, once. A short file is kept in memory; a longer one is read here and later again by ranges.
func (d *columnData) verify(ctx context.Context) error {
	if d.sound {
		return nil
	}
	err := d.check(ctx)
	d.sound = err == nil
	return err
}

func (d *columnData) check(ctx context.Context) error {
	if d.data.size <= wholeDocValues {
		if err := d.readWhole(ctx); err != nil {
			return err
		}
		return d.checkSum(ctx)
	}
	if err := d.readHeader(ctx); err != nil {
		return err
	}
	if err := d.data.verify(ctx); err != nil {
		return err
	}
	return d.checkSum(ctx)
}

// verifyShort verifies the whole file if it is short, and only checks the header otherwise.
func (d *columnData) verifyShort(ctx context.Context) error {
	if d.data.size <= partDocValues {
		return d.verify(ctx)
	}
	return d.readHeader(ctx)
}

func (d *columnData) readHeader(ctx context.Context) error {
	head, err := d.data.readAt(ctx, 0, codec.MaxHeaderLen)
	if err != nil {
		return err
	}
	return d.checkHeader(head)
}

func (d *columnData) checkSum(ctx context.Context) error {
	if !d.unsummed {
		return nil
	}
	return d.data.verifyWhole(ctx)
}

func (d *columnData) checkHeader(b []byte) error {
	in := codec.NewInput(b)
	if h := in.Header(); !columns.WithoutID(h.Codec) {
		checkID(in, d.id)
	}
	return d.data.wrap(in.Err())
}

// uncached returns the column without the cached parts of its file.
func (c *column) uncached() *column {
	if c == nil {
		return nil
	}
	d := *c.columnData
	d.data, d.whole = d.data.uncached(), nil
	return &column{field: c.field, entry: c.entry, columnData: &d}
}

// wrap names the file in an error of the column.
func (c *column) wrap(err error) error {
	if err == nil {
		return nil
	}
	return c.data.wrap(fmt.Errorf("column %s: %w", c.field.name, err))
}

// columnMetas opens columns. It parses a file that several columns share only once.
type columnMetas struct {
	seg    *Segment
	fields *fieldInfos
	only   []string    // fields whose columns are wanted; nil: any
	long   *sync.Mutex // held while a long file is read and parsed; nil if no other goroutine reads one
	parsed map[string]*columnFile
}

type columnFile struct {
	name    string
	entries map[int32]*columns.Entry
	data    *columnData
}

// open returns the column of a field, nil if its format is not supported. The field determines the generation: a later file holds the
// complete column.
func (m *columnMetas) open(ctx context.Context, f *fieldInfo) (*column, error) {
	format := f.attrs[attrFormat]
	if !columns.Known(format) {
		return nil, nil
	}
	suffix := f.columnFile()
	key := suffix
	if f.dvGen >= 0 {
		key = codec.Base36(f.dvGen) + "_" + suffix
	}
	file := m.parsed[key]
	if file == nil {
		var err error
		if file, err = m.parse(ctx, f, suffix, key); err != nil {
			return nil, err
		}
		if m.parsed == nil {
			m.parsed = make(map[string]*columnFile)
		}
		m.parsed[key] = file
	}
	e := file.entries[f.number]
	if e == nil {
		return nil, fault.Corrupt("", file.name, -1, "column %s does not exist", f.name)
	}
	return &column{field: f, entry: e, columnData: file.data}, nil
}

func (m *columnMetas) parse(ctx context.Context, f *fieldInfo, suffix, full string) (*columnFile, error) {
	metaExt, dataExt := columns.Files(f.attrs[attrFormat])
	find := func(ext string) (*source, error) {
		if f.dvGen >= 0 {
			return m.seg.files.later(f.dvGen, "_"+suffix+ext)
		}
		return m.seg.files.core("_" + suffix + ext)
	}
	meta, err := find(metaExt)
	if err != nil {
		return nil, err
	}
	if m.long != nil && meta.size > longFile {
		m.long.Lock()
		defer m.long.Unlock()
	}
	b, err := meta.readAll(ctx)
	if err != nil {
		return nil, err
	}
	plain := !codec.WantsFooter(b)
	if plain {
		if err := meta.verifyWhole(ctx); err != nil {
			return nil, err
		}
	}
	entries, err := columns.ParseMeta(b, m.seg.id, full, m.describe(f))
	if err != nil {
		return nil, meta.wrap(err)
	}
	data, err := find(dataExt)
	if err != nil {
		return nil, err
	}
	return &columnFile{name: meta.name, entries: entries, data: &columnData{data: data, id: m.seg.id, unsummed: plain && data.own}}, nil
}

// describe returns a function that returns the properties of a field by number, for the parser of .dvm. The file of an updated column has
// no other columns.
func (m *columnMetas) describe(of *fieldInfo) func(number int32) (columns.Field, bool) {
	return func(number int32) (columns.Field, bool) {
		f := of
		if of.dvGen < 0 {
			f = m.fields.fields[number]
		}
		if f == nil || f.number != number {
			return columns.Field{}, false
		}
		return columns.Field{
			SkipIndex: f.skipIndex, Compressed: f.attrs[attrMode] == "BEST_COMPRESSION", Sorts: f.name == m.seg.sortedBy,
			Unwanted: m.only != nil && !slices.Contains(m.only, f.name),
		}, true
	}
}
