package lucene

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// out writes the primitives of Lucene files.
type out struct {
	b  []byte
	le bool
}

func (o *out) u8(v int)       { o.b = append(o.b, byte(v)) }
func (o *out) bytes(p []byte) { o.b = append(o.b, p...) }
func (o *out) vint(v int)     { o.b = binary.AppendUvarint(o.b, uint64(uint32(v))) }
func (o *out) vlong(v int64)  { o.b = binary.AppendUvarint(o.b, uint64(v)) }
func (o *out) str(s string)   { o.vint(len(s)); o.b = append(o.b, s...) }
func (o *out) be32(v int)     { o.b = binary.BigEndian.AppendUint32(o.b, uint32(v)) }
func (o *out) be64(v int64)   { o.b = binary.BigEndian.AppendUint64(o.b, uint64(v)) }
func (o *out) count(n int, old bool) {
	if old {
		o.be32(n)
	} else {
		o.vint(n)
	}
}

func (o *out) i32(v int) {
	if o.le {
		o.b = binary.LittleEndian.AppendUint32(o.b, uint32(v))
	} else {
		o.be32(v)
	}
}

func (o *out) i64(v int64) {
	if o.le {
		o.b = binary.LittleEndian.AppendUint64(o.b, uint64(v))
	} else {
		o.be64(v)
	}
}

var testID = []byte("0123456789abcdef")

func (o *out) header(name string, version int) {
	o.be32(0x3FD76C17)
	o.str(name)
	o.be32(version)
	o.le = codec.LittleEndian(name)
}

func (o *out) indexHeader(name string, version int, suffix string) {
	o.header(name, version)
	o.bytes(testID)
	o.u8(len(suffix))
	o.b = append(o.b, suffix...)
}

func (o *out) footer() []byte {
	o.be32(0xC02893E8 - 1<<32)
	o.be32(0)
	o.be64(int64(crc32.ChecksumIEEE(o.b)))
	return o.b
}

func (o *out) strs(old bool, set ...string) {
	o.count(len(set), old)
	for _, s := range set {
		o.str(s)
	}
}

// storedField is one field of a test document: kinds as in parseBody.
type storedField struct {
	number, kind int
	value        []byte
}

type testDoc []storedField

// segmentSpec describes how a test segment is written.
type segmentSpec struct {
	fdt       string // codec
	version   int
	chunkSize int
	chunkDocs int
	packed    int // version of packed integers
	docs      []testDoc
}

// Field numbers of test segments.
const (
	numID = iota
	numSource
	numRouting
	numOther
	numUID
	numParent
)

var testFields = []string{"_id", "_source", "_routing", "other", "_uid", "_parent"}

func (d testDoc) encode(plain40 bool) []byte {
	var o out
	if plain40 {
		o.vint(len(d))
	}
	for _, f := range d {
		if plain40 {
			o.vint(f.number)
			bits := [...]int{0, 2, 1 << 3, 3 << 3, 2 << 3, 4 << 3}[f.kind]
			o.u8(bits)
		} else {
			o.vlong(int64(f.number<<3 | f.kind))
		}
		if f.kind < 2 {
			o.vint(len(f.value))
		}
		o.bytes(f.value)
	}
	return o.b
}

// encodeSegment writes a commit of one segment with the given stored fields.
func encodeSegment(t testing.TB, s segmentSpec) mapDir {
	t.Helper()
	dir := mapDir{}
	plain := storedFormats[s.fdt].plain
	if plain {
		dir["segments_1"] = segmentsFile(1, len(s.docs))
		dir["_0.si"] = siFile46(len(s.docs))
		dir["_0.fnm"] = fnmFile46()
	} else {
		dir["segments_1"] = segmentsFile(10, len(s.docs))
		dir["_0.si"] = siFile90(len(s.docs))
		dir["_0.fnm"] = fnmFile94()
	}
	e := storedEncoder{spec: s, t: t}
	e.write(dir)
	return dir
}

func segmentsFile(format, _ int) []byte {
	var o out
	o.header("segments", format)
	if format >= 4 {
		o.bytes(testID)
		o.u8(1)
		o.b = append(o.b, '1')
	}
	if format >= 6 {
		o.bytes([]byte{10, 1, 0})
	}
	if format >= 7 {
		o.vint(10)
	}
	o.be64(7)
	if format >= 8 {
		o.vlong(3)
	} else {
		o.be32(3)
	}
	o.be32(1)
	if format >= 6 {
		o.bytes([]byte{9, 0, 0})
	}
	o.str("_0")
	if format >= 7 {
		o.bytes(testID)
	} else if format >= 4 {
		o.u8(1)
		o.bytes(testID)
	}
	o.str("AnyCodec")
	o.be64(-1)
	o.be32(0)
	if format >= 1 {
		o.be64(-1)
	}
	if format >= 3 {
		o.be64(-1)
	}
	if format >= 9 {
		o.be32(0)
	}
	if format >= 10 {
		o.u8(1)
		o.bytes(testID)
	}
	switch {
	case format == 1 || format == 2:
		o.be32(1)
		o.be64(4)
		o.strs(true, "_0_4.x")
	case format >= 3:
		o.strs(format < 5, "_0_1.fnm")
		o.be32(1)
		o.be32(3)
		o.strs(format < 5, "_0_1.dvd")
	}
	o.count(1, format < 5)
	o.str("key")
	o.str("value")
	if format >= 2 {
		return o.footer()
	}
	o.be64(int64(crc32.ChecksumIEEE(o.b)))
	return o.b
}

func siFile46(maxDoc int) []byte {
	var o out
	o.header("Lucene46SegmentInfo", 0)
	o.str("4.6")
	o.be32(maxDoc)
	o.u8(0xFF)
	o.count(0, true)
	o.strs(true, "_0.fdt")
	return o.b
}

func siFile90(maxDoc int) []byte {
	var o out
	o.indexHeader("Lucene90SegmentInfo", 0, "")
	o.i32(10)
	o.i32(1)
	o.i32(0)
	o.u8(0)
	o.i32(maxDoc)
	o.u8(0xFF)
	o.u8(1) // hasBlocks
	o.vint(1)
	o.str("os")
	o.str("Linux")
	o.strs(false, "_0.fdt")
	o.vint(0)
	o.vint(0)
	return o.footer()
}

func fnmFile46() []byte {
	var o out
	o.header("Lucene46FieldInfos", 0)
	o.vint(len(testFields))
	for i, name := range testFields {
		o.str(name)
		o.vint(i)
		o.u8(0)
		o.u8(0)
		o.be64(-1)
		o.count(0, true)
	}
	return o.b
}

func fnmFile94() []byte {
	var o out
	o.indexHeader("Lucene94FieldInfos", 2, "")
	o.vint(len(testFields))
	for i, name := range testFields {
		o.str(name)
		o.vint(i)
		o.bytes([]byte{0, 0, 0, 0})
		o.i64(-1)
		o.vint(0)
		o.bytes([]byte{0, 0, 0, 0})
	}
	return o.footer()
}

// storedEncoder writes .fdt, .fdx and .fdm.
type storedEncoder struct {
	spec  segmentSpec
	t     testing.TB
	first []int
	at    []int64
}

func (e *storedEncoder) write(dir mapDir) {
	s := e.spec
	layout := storedFormats[s.fdt].layout
	var o out
	if storedFormats[s.fdt].plain {
		o.header(s.fdt, s.version)
	} else {
		o.indexHeader(s.fdt, s.version, "")
	}
	_, is40 := layout.(g40)
	if is40 {
		e.write40(&o, dir)
		return
	}
	_, is41 := layout.(g41)
	_, is90 := layout.(g90)
	if is41 && s.version >= 1 || !is41 && !is90 && s.version <= 2 {
		o.vint(s.chunkSize)
	}
	if is41 || !is90 && s.version <= 2 {
		o.vint(s.packed)
	}
	for d := 0; d < len(s.docs); {
		d += e.chunk(&o, d)
	}
	maxPointer := int64(len(o.b))
	if !is41 && !is90 && (s.version == 1 || s.version == 2) {
		o.vlong(int64(len(e.at)))
		o.vlong(0)
	}
	if !is41 || s.version >= 2 {
		o.footer()
	}
	dir["_0.fdt"] = o.b
	if is41 || !is90 && s.version < 2 {
		dir["_0.fdx"] = e.legacyIndex(maxPointer, is41)
		return
	}
	e.modernIndex(dir, maxPointer, is90)
}

func (e *storedEncoder) write40(o *out, dir mapDir) {
	var x out
	x.header("Lucene40StoredFieldsIndex", 0)
	for _, d := range e.spec.docs {
		x.be64(int64(len(o.b)))
		o.bytes(d.encode(true))
	}
	dir["_0.fdt"], dir["_0.fdx"] = o.b, x.b
}

// chunk writes the documents from d on and returns how many.
func (e *storedEncoder) chunk(o *out, d int) int {
	s := e.spec
	e.first = append(e.first, d)
	e.at = append(e.at, int64(len(o.b)))
	var raw []byte
	var fields, lengths []int
	for ; d+len(fields) < len(s.docs) && len(fields) < s.chunkDocs && len(raw) < s.chunkSize; fields = append(fields, 0) {
		doc := s.docs[d+len(fields)]
		b := doc.encode(false)
		raw = append(raw, b...)
		lengths = append(lengths, len(b))
	}
	for i := range fields {
		fields[i] = len(s.docs[d+i])
	}
	sliced := len(raw) >= 2*s.chunkSize
	o.vint(d)
	flag := 0
	if sliced {
		flag = 1
	}
	switch storedFormats[s.fdt].layout.(type) {
	case g41:
		o.vint(len(fields))
		sliced = sliced && s.version >= 1
	case g50:
		if s.version < 4 {
			o.vint(len(fields)<<1 | flag)
		} else {
			o.vint(len(fields)<<2 | 2 | flag)
		}
	case g90:
		o.vint(len(fields)<<2 | flag)
	}
	if len(fields) == 1 {
		o.vint(fields[0])
		o.vint(lengths[0])
	} else {
		e.ints(o, fields)
		e.ints(o, lengths)
	}
	if len(raw) == 0 {
		o.bytes([]byte{0, 0, 1, 0})
		return len(fields)
	}
	for len(raw) > 0 {
		n := len(raw)
		if sliced {
			n = min(n, s.chunkSize)
		}
		o.bytes(compressUnit(e.t, s.fdt, raw[:n]))
		raw = raw[n:]
	}
	return len(fields)
}

func (e *storedEncoder) ints(o *out, v []int) {
	if _, ok := storedFormats[e.spec.fdt].layout.(g90); ok {
		o.bytes(storedInts(v))
		return
	}
	if slices.Max(v) == slices.Min(v) {
		o.vint(0)
		o.vint(v[0])
		return
	}
	bits := 1
	for slices.Max(v)>>bits != 0 {
		bits++
	}
	o.vint(bits)
	var acc string
	for _, x := range v {
		acc += fmt.Sprintf("%0*b", bits, x)
	}
	unit := 8
	if e.spec.packed == 0 {
		unit = 64
	}
	for len(acc)%unit != 0 {
		acc += "0"
	}
	for ; acc != ""; acc = acc[8:] {
		var c int
		for _, r := range acc[:8] {
			c = c<<1 | int(r-'0')
		}
		o.u8(c)
	}
}

// storedInts writes integers as Lucene 9 does.
func storedInts(v []int) []byte {
	var o out
	o.le = true
	most := slices.Max(v)
	if most == slices.Min(v) {
		o.u8(0)
		o.vint(v[0])
		return o.b
	}
	width := 32
	if most < 1<<8 {
		width = 8
	} else if most < 1<<16 {
		width = 16
	}
	o.u8(width)
	lanes := 64 / width
	rows := 128 / lanes
	for ; len(v) >= 128; v = v[128:] {
		for r := range rows {
			var l uint64
			for q := range lanes {
				l = l<<width | uint64(v[r+q*rows])
			}
			o.i64(int64(l))
		}
	}
	for _, x := range v {
		for i := 0; i < width; i += 8 {
			o.u8(x >> i)
		}
	}
	return o.b
}

func (e *storedEncoder) legacyIndex(maxPointer int64, plain bool) []byte {
	var o out
	name := strings.TrimSuffix(e.spec.fdt, "Data") + "Index"
	if plain {
		o.header(name, e.spec.version)
	} else {
		o.indexHeader(name, e.spec.version, "")
	}
	o.vint(e.spec.packed)
	for k := range e.at {
		o.vint(1)
		o.vint(e.first[k])
		o.vint(0)
		o.vint(0)
		o.vlong(e.at[k])
		o.vlong(0)
		o.vint(0)
	}
	o.vint(0)
	if !plain || e.spec.version >= 2 {
		o.vlong(maxPointer)
		return o.footer()
	}
	return o.b
}

func (e *storedEncoder) modernIndex(dir mapDir, maxPointer int64, is90 bool) {
	s := e.spec
	gen, metaVersion := "Lucene85", max(0, s.version-0)
	if is90 {
		gen, metaVersion = "Lucene90", 1
	} else if s.version == 2 {
		metaVersion = 0
	}
	docs := append(slices.Clone(e.first), len(s.docs))
	points := append(slices.Clone(e.at), maxPointer)
	var x, m out
	x.indexHeader(gen+"FieldsIndexIdx", 0, "")
	m.indexHeader(gen+"FieldsIndexMeta", metaVersion, "")
	if is90 || s.version >= 3 {
		m.vint(s.chunkSize)
	}
	if !is90 && s.version >= 3 {
		m.vint(s.packed)
	}
	const shift = 10
	m.i32(len(s.docs))
	m.i32(shift)
	m.i32(len(docs))
	mono := func(value func(i int) int64) {
		start := int64(len(x.b))
		m.i64(start)
		for i := 0; i < len(docs); i += 1 << shift {
			m.i64(0)
			m.i32(0)
			m.i64(int64(len(x.b)) - start)
			m.u8(64)
			for k := i; k < min(len(docs), i+1<<shift); k++ {
				x.i64(value(k))
			}
		}
	}
	mono(func(i int) int64 { return int64(docs[i]) })
	mono(func(i int) int64 { return points[i] })
	m.i64(int64(len(x.b)))
	m.i64(maxPointer)
	if is90 || s.version >= 4 {
		m.vlong(int64(len(e.at)))
	}
	if is90 || s.version >= 3 {
		m.vlong(0)
		m.vlong(0)
	}
	dir["_0.fdx"], dir["_0.fdm"] = x.footer(), m.footer()
}
