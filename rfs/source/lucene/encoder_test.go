package lucene

import (
	"encoding/binary"
	"hash/crc32"
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
