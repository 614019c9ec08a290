package lucene

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

/*
.fnm, the fields of a segment: header, VInt n, then per field

	str name | VInt number | u8 bits
	Lucene40, 42, 46FieldInfos (plain header)
	  u8 doc values (low nibble) and norms | 46: i64 dvGen | old map attributes
	Lucene50, 60, 90, 94FieldInfos (index header)
	  u8 index options | u8 doc values | 94 v2: u8 skip index (10.0)
	  i64 dvGen | map attributes (50 v0: old counts)
	  60 and later: VInt point dimensions, when > 0: [not 60 before v2: VInt indexed], VInt bytes
	  90: VInt vector dimension, u8 similarity
	  94: VInt vector dimension, u8 encoding, u8 similarity

footer except for 40, 42 and 46 v0.

The file <seg>.fnm describes what was written with the segment: stored fields, terms, vectors and the columns that were
never updated. With a fieldInfosGen a second file <seg>_<gen>.fnm, outside the compound file, describes the updated columns
(their dvGen is not -1). Up to Lucene 8.5.0 the field numbers of the two files differ in a segment that addIndexes copied,
as when an index is shrunk, split or cloned (LUCENE-9300).
*/
type fieldInfo struct {
	name      string
	number    int32
	docValues uint8 // 0 none 1 numeric 2 binary 3 sorted 4 sorted-set 5 sorted-numeric
	skipIndex bool
	dvGen     int64 // -1: the segment's own doc-values file
	index     postings.Options
	indexed   bool
	attrs     attributes
	vector    columns.Vector // Dimension 0: it has none
}

const (
	dvNumeric = 1
	dvBinary  = 2
)

// attributes are the attributes of a field that are used here.
type attributes [8]string

const (
	attrFormat = iota
	attrSuffix
	attrMode
	attrSyntheticID
	attrPostings
	attrPostingsSuffix
	attrVectors
	attrVectorsSuffix
)

var attributeNames = map[string]int{
	"PerFieldDocValuesFormat.format":  attrFormat,
	"PerFieldDocValuesFormat.suffix":  attrSuffix,
	"Lucene80DocValuesFormat.mode":    attrMode,
	"SyntheticIdField.enabled":        attrSyntheticID,
	"PerFieldPostingsFormat.format":   attrPostings,
	"PerFieldPostingsFormat.suffix":   attrPostingsSuffix,
	"PerFieldKnnVectorsFormat.format": attrVectors,
	"PerFieldKnnVectorsFormat.suffix": attrVectorsSuffix,
}

// readAttributes reads the attributes in attributeNames and skips all others: a hostile file may have millions.
func readAttributes(in *codec.Input, old bool) (a attributes) {
	for n := in.Entries(old); n > 0 && in.Err() == nil; n-- {
		key, value := in.Take(int(in.VInt())), in.Take(int(in.VInt()))
		if k, ok := attributeNames[string(key)]; ok {
			a[k] = string(value)
		}
	}
	return a
}

// fnmLayout describes how one codec of .fnm is laid out.
type fnmLayout struct {
	plain     bool
	dvGen     bool // plain layouts only: 46
	points    bool
	vector    bool
	encoding  bool // vector encoding, and skip index from version 2 on
	oldCounts func(version int32) bool
}

var fnmLayouts = map[string]fnmLayout{
	"Lucene40FieldInfos": {plain: true, oldCounts: always},
	"Lucene42FieldInfos": {plain: true, oldCounts: always},
	"Lucene46FieldInfos": {plain: true, oldCounts: always, dvGen: true},
	"Lucene50FieldInfos": {oldCounts: func(v int32) bool { return v < 1 }},
	"Lucene60FieldInfos": {oldCounts: never, points: true},
	"Lucene90FieldInfos": {oldCounts: never, points: true, vector: true},
	"Lucene94FieldInfos": {oldCounts: never, points: true, vector: true, encoding: true},
}

// fieldInfos are the fields of a segment, as they were written with it.
type fieldInfos struct {
	codec   string
	fields  map[int32]*fieldInfo
	byName  map[string]*fieldInfo
	updated map[string]*fieldInfo // fields whose column was updated since
}

// fieldCost is the approximate memory of a field, in bytes.
const fieldCost = 256

// maxFieldNumber bounds the fields of an index, and the tables that are indexed by field number. Lucene numbers the fields
// of an index without gaps; clusters allow 1,000 unless index.mapping.total_fields.limit is raised.
const maxFieldNumber = 1 << 18

func parseFieldInfos(b []byte, id string) (*fieldInfos, error) {
	in := codec.NewInput(b)
	h := in.Header()
	if in.Err() != nil {
		return nil, in.Err()
	}
	l, ok := fnmLayouts[h.Codec]
	if !ok {
		return nil, fmt.Errorf("field infos of codec %q are unknown: %w", h.Codec, fault.ErrUnsupported)
	}
	if !l.plain {
		checkID(in, id)
		in.Take(int(in.U8()))
	}
	n := in.Count(4)
	out := &fieldInfos{codec: h.Codec, fields: make(map[int32]*fieldInfo, min(n, maxFieldNumber)), byName: make(map[string]*fieldInfo, min(n, maxFieldNumber))}
	for i := 0; i < n && in.Err() == nil; i++ {
		f := readFieldInfo(in, l, h.Version)
		if in.Err() == nil && (f.number > maxFieldNumber || i == maxFieldNumber) {
			return nil, fmt.Errorf("more than %d fields in an index: %w", maxFieldNumber, fault.ErrUnsupported)
		}
		if f.number < 0 || out.fields[f.number] != nil {
			in.Fail("field %q has number %d, which is not possible or taken", f.name, f.number)
		}
		out.fields[f.number], out.byName[f.name] = f, f
	}
	if codec.HasFooter(b) && in.Err() == nil && in.Left() != codec.FooterLen {
		in.Fail("%d bytes left where the footer starts", in.Left())
	}
	return out, in.Err()
}

func readFieldInfo(in *codec.Input, l fnmLayout, version int32) *fieldInfo {
	f := &fieldInfo{name: in.String(), number: in.VInt(), dvGen: -1}
	bits := in.U8()
	if l.plain {
		f.indexed = bits&1 != 0
		f.index = postings.Options{Frequencies: bits&0x40 == 0, Positions: bits&0xC0 == 0, Offsets: bits&0xC4 == 4, Payloads: bits&0x20 != 0}
		f.docValues = in.U8() & 15
		if l.dvGen {
			f.dvGen = in.I64()
		}
		f.attrs = readAttributes(in, true)
		return f
	}
	options := in.U8() // 0 none, 1 documents, 2 frequencies, 3 positions, 4 offsets
	f.indexed = options > 0
	f.index = postings.Options{Frequencies: options > 1, Positions: options > 2, Offsets: options > 3, Payloads: bits&4 != 0}
	f.docValues = in.U8()
	if l.encoding && version >= 2 {
		f.skipIndex = in.U8() != 0
	}
	f.dvGen = in.I64()
	f.attrs = readAttributes(in, l.oldCounts(version))
	if l.points && in.VInt() > 0 {
		if l.vector || version >= 2 {
			in.VInt()
		}
		in.VInt()
	}
	if l.vector {
		f.vector.Dimension, f.vector.Floats = in.VInt(), true
		if l.encoding {
			f.vector.Floats = in.U8() == 1
		}
		in.U8()
	}
	return f
}

// update records the fields of a later .fnm whose columns were updated.
func (fi *fieldInfos) update(later *fieldInfos) {
	for name, f := range later.byName {
		if f.dvGen < 0 {
			continue
		}
		if fi.updated == nil {
			fi.updated = make(map[string]*fieldInfo)
		}
		fi.updated[name] = f
	}
}

// column returns the field with the newest column of that name; nil if the segment has none.
func (fi *fieldInfos) column(name string) *fieldInfo {
	f := fi.updated[name]
	if f == nil {
		f = fi.byName[name]
	}
	if f == nil || f.docValues == 0 {
		return nil
	}
	return f
}

// numeric is column restricted to numeric doc values.
func (fi *fieldInfos) numeric(name string) *fieldInfo {
	if f := fi.column(name); f != nil && f.docValues == dvNumeric {
		return f
	}
	return nil
}

// named returns the field of that name, or nil.
func (fi *fieldInfos) named(name string) *fieldInfo { return fi.byName[name] }

// columnFile returns the prefix of the names of a column's files, after the segment's name.
func (f *fieldInfo) columnFile() string { return f.attrs[attrFormat] + "_" + f.attrs[attrSuffix] }
