package lucene

import (
	"context"
	"fmt"
	"math"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// Values are the fields of one segment by name: the stored fields of the document that a Record describes, and the doc values columns. They
// belong to the goroutine of their Reader.
type Values struct {
	metas        columnMetas
	opened       map[string]*Column
	vectors      vectorFiles
	dictionaries map[string]*postings.Dictionary // by format and suffix
	marks        *marks
	held         int64 // bytes of long values
	most         int64 // of held
	storedDoc
	children []NestedDoc // the nested documents before the current document
	block    []byte      // their stored fields
}

// storedDoc are the stored fields of one document.
type storedDoc struct {
	seg    *Segment
	infos  *fieldInfos
	doc    []byte
	fields int32
	id     int32
	le     bool // numbers of stored fields are little-endian
}

// NestedDoc is a nested document, which precedes its root. It is valid as long as the root's Record.
type NestedDoc struct{ storedDoc }

// StoredKind is the type of a stored value.
type StoredKind uint8

// The types of stored values, as .fdt numbers them.
const (
	StoredString StoredKind = iota
	StoredBytes
	StoredInt
	StoredFloat
	StoredLong
	StoredDouble
)

// StoredValue is one stored value of a document. Bytes belong to strings and bytes and are borrowed, Int to whole
// numbers, Float to the others.
type StoredValue struct {
	Name  string
	Kind  StoredKind
	Bytes []byte
	Int   int64
	Float float64
}

// Segment returns the segment of the values. The set of columns is the same for all its documents.
func (v *Values) Segment() *Segment { return v.seg }

// DocID returns the number of the document within its segment.
func (d *storedDoc) DocID() int32 { return d.id }

// Nested reports whether the current document has nested documents, or may have some. They directly precede it.
func (v *Values) Nested() bool {
	if !v.seg.roots.known {
		_, nested := v.infos.byName["_nested_path"]
		return nested
	}
	return v.id > 0 && !v.marks.isRoot(v.id-1)
}

// Children returns the nested documents of the current document, in order; whole is false if it is unknown whether these are all.
func (v *Values) Children() (all []NestedDoc, whole bool) {
	if !v.Nested() {
		return nil, true
	}
	if !v.seg.roots.known || len(v.children) == 0 {
		return nil, false
	}
	first := v.children[0].id
	if first > 0 && !v.marks.isRoot(first-1) || int(v.id-first) != len(v.children) {
		return nil, false
	}
	return v.children, true
}

// addChild keeps a nested document for the root that follows.
func (v *Values) addChild(doc []byte, fields, id int32) {
	v.block = append(v.block, doc...)
	v.children = append(v.children, NestedDoc{storedDoc{v.seg, v.infos, v.block[len(v.block)-len(doc):], fields, id, v.le}})
}

// Has reports whether the segment knows a field, and whether it has doc values for it.
func (v *Values) Has(name string) (known, column bool) {
	column = v.infos.column(name) != nil
	return column || v.infos.byName[name] != nil, column
}

// Names calls yield for each field of the segment.
func (v *Values) Names(yield func(name string)) {
	for _, f := range v.infos.fields {
		yield(f.name)
	}
}

// Column reads a column of a segment, document by document in ascending order.
type Column struct {
	column *column
	values *columns.Reader
}

// Column returns the column of a field, or nil if the segment has none. The file is verified before its first column is returned.
func (v *Values) Column(ctx context.Context, name string) (*Column, error) {
	if c, ok := v.opened[name]; ok {
		return c, nil
	}
	f := v.infos.column(name)
	if f == nil {
		v.opened[name] = nil
		return nil, nil
	}
	c, err := v.metas.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, unknownColumns(name, f.attrs[attrFormat])
	}
	if err := c.verify(ctx); err != nil {
		return nil, err
	}
	r, err := c.entry.NewReader(valuesData{c.columnData, v}, int32(v.seg.MaxDoc))
	if err != nil {
		return nil, c.wrap(err)
	}
	v.opened[name] = &Column{c, r}
	return v.opened[name], nil
}

// unknownColumns is the error of a field whose doc values have a format that is not read.
func unknownColumns(field, format string) error {
	remedy := ""
	if format == "Memory" { // doc_values_format of Elasticsearch 1.x; 2.0 dropped it
		remedy = "; on the source, set doc_values_format of the field to default, merge the index into one segment (_optimize?max_num_segments=1) and take another snapshot"
	}
	return fmt.Errorf("column %s: doc values of format %q are not read: %w%s", field, format, fault.ErrUnsupported, remedy)
}

// leastHeld is the memory for long values that the columns of a segment may always hold, regardless of Bound, in bytes.
const leastHeld = 16 << 20

// Bound sets the limit of the long values that the columns may hold together, in bytes; reading beyond it is columns.ErrLong.
func (v *Values) Bound(most int64) { v.most = most }

// Shrink releases the memory of long values.
func (v *Values) Shrink() {
	for _, c := range v.opened {
		if c != nil && v.held > 0 {
			c.values.Shrink()
		}
	}
}

// valuesData is the file of a column of Values. It counts the memory of all of them together.
type valuesData struct {
	*columnData
	values *Values
}

// Hold counts n more bytes of long values, and returns columns.ErrLong beyond the limit.
func (d valuesData) Hold(n int64) error {
	if v := d.values; n > 0 && v.held+n > max(v.most, leastHeld) {
		return fmt.Errorf("%d bytes of long values, at most %d: %w", v.held+n, max(v.most, leastHeld), columns.ErrLong)
	}
	d.values.held += n
	return nil
}

// Page returns the number of bytes to request per read, fewer if many columns are read, because each holds several pages.
func (d valuesData) Page() int64 {
	return max(pageSize/int64(1+len(d.values.opened)/64), 8<<10)
}

// Kind returns the type of the column.
func (c *Column) Kind() columns.Kind { return c.column.entry.Kind }

// Advance moves to a document and returns the number of its values.
func (c *Column) Advance(ctx context.Context, doc int32) (int, error) {
	n, err := c.values.Advance(ctx, doc)
	return n, c.column.wrap(err)
}

// Number returns value i of the document.
func (c *Column) Number(ctx context.Context, i int) (int64, error) {
	n, err := c.values.Number(ctx, i)
	return n, c.column.wrap(err)
}

// Bytes returns value i of the document, valid until the next call.
func (c *Column) Bytes(ctx context.Context, i int) ([]byte, error) {
	b, err := c.values.Bytes(ctx, i)
	return b, c.column.wrap(err)
}

// Stored calls yield for each stored value of the document, in the order in which they were added.
func (d *storedDoc) Stored(yield func(StoredValue) error) error {
	in := codec.NewInput(d.doc)
	in.SetLittleEndian(d.le)
	for range d.fields {
		head := uint64(in.VLong())
		f := d.infos.fields[int32(head>>3)]
		if in.Err() == nil && (f == nil || head>>3 > maxFieldNumber) {
			in.Fail("field %d is not in the field infos", head>>3)
		}
		if in.Err() != nil {
			return in.Err()
		}
		value := StoredValue{Name: f.name, Kind: StoredKind(head & 7)}
		switch value.Kind {
		case StoredString, StoredBytes:
			value.Bytes = in.Take(int(in.VInt()))
		case StoredInt:
			value.Int = codec.ZigZag64(int64(uint32(in.VInt())))
		case StoredLong:
			value.Int = storedLong(in)
		case StoredFloat:
			value.Float = storedFloat(in)
		case StoredDouble:
			value.Float = storedDouble(in)
		default:
			in.Fail("value of type %d", value.Kind)
		}
		if in.Err() != nil {
			return in.Err()
		}
		if err := yield(value); err != nil {
			return err
		}
	}
	return in.Err()
}

/*
Numbers in stored fields since Lucene 5.0 (parseBody):

	long    u8: bits 6 and 7 a unit (0 none, 1 second, 2 hour, 3 day, in ms), bit 5 a VLong follows, the low 5 bits; zig-zag
	float   FF: i32 follows; 80 and up: the value is the low 7 bits - 1; else the high byte, i16, the low byte
	double  FF: i64 follows; FE: a float as i32 follows; 80 and up: the low 7 bits - 1; else the high byte, i32, i16, the low byte

i16, i32 and i64 are little-endian since Lucene 9.0, as all of its files.
*/
func storedLong(in *codec.Input) int64 {
	head := in.U8()
	v := uint64(head & 0x1f)
	if head&0x20 != 0 {
		v |= uint64(in.VLong()) << 5
	}
	return codec.ZigZag64(int64(v)) * [...]int64{1, 1000, 3600_000, 86400_000}[head>>6]
}

func storedFloat(in *codec.Input) float64 {
	head := in.U8()
	switch {
	case head == 0xFF:
		return float64(in.F32())
	case head&0x80 != 0:
		return float64(int(head&0x7f) - 1)
	}
	bits := uint32(head)<<24 | uint32(uint16(in.I16()))<<8
	return float64(math.Float32frombits(bits | uint32(in.U8())))
}

func storedDouble(in *codec.Input) float64 {
	head := in.U8()
	switch {
	case head == 0xFF:
		return math.Float64frombits(uint64(in.I64()))
	case head == 0xFE:
		return float64(in.F32())
	case head&0x80 != 0:
		return float64(int(head&0x7f) - 1)
	}
	bits := uint64(head)<<56 | uint64(uint32(in.I32()))<<24
	bits |= uint64(uint16(in.I16())) << 8
	return math.Float64frombits(bits | uint64(in.U8()))
}

// versionField is the column of the version that the source cluster last assigned to a document. Every root document has one since
// Elasticsearch 1.0; before, it was a payload of the id.
const versionField = "_version"

// versions reads the versions of the documents of a segment in parallel to its stored fields.
type versions struct{ column *columnReader }

// openVersions opens the column of a segment. It reads only the metadata.
func openVersions(ctx context.Context, seg *Segment, infos *fieldInfos) (*versions, error) {
	if infos == nil {
		return nil, fmt.Errorf("%s: versions need the field infos, the commit was opened without Options.Values: %w", seg.Name, fault.ErrUnsupported)
	}
	f := infos.numeric(versionField)
	if f == nil {
		return nil, fmt.Errorf("%s: its documents have no versions in doc values; only overwrite and keep are possible: %w", seg.Name, fault.ErrUnsupported)
	}
	metas := columnMetas{seg: seg, fields: infos, only: []string{versionField}}
	c, err := metas.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("%s: versions in doc values of format %q are unknown: %w", seg.Name, f.attrs[attrFormat], fault.ErrUnsupported)
	}
	r, err := c.reader(int32(seg.MaxDoc))
	if err != nil {
		return nil, err
	}
	return &versions{r}, nil
}

// fill sets the version of a root document. The file is verified before the first version is read, because a damaged one would decide
// version conflicts wrongly.
func (v *versions) fill(ctx context.Context, rec *Record) (err error) {
	if err = v.column.verify(ctx); err != nil {
		return err
	}
	rec.Version, err = v.column.number(ctx, rec.DocID)
	return err
}
