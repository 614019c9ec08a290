package lucene

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Added is a file that Apply has written. Its bytes are in memory, in pieces; the long ones are the sources of the operations.
type Added struct {
	Name string
	Size int64  // in bytes
	Sum  uint32 // the CRC-32 in its footer

	pieces [][]byte
	starts []int64 // of the pieces
}

// ReadAt fills p with the bytes at off, as io.ReaderAt does.
func (a *Added) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > a.Size {
		return 0, fmt.Errorf("offset %d of a file of %d bytes: %w", off, a.Size, io.EOF)
	}
	k := sort.Search(len(a.starts), func(k int) bool { return a.starts[k] > off }) - 1
	for ; n < len(p) && k >= 0 && k < len(a.pieces); k++ {
		n += copy(p[n:], a.pieces[k][off+int64(n)-a.starts[k]:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// writer writes a Lucene file. Fixed-width integers are big-endian unless little is set.
type writer struct {
	Added
	little bool
	b      []byte // the last piece
}

// shared is the length from which on bytes are not copied, but become a piece of their own.
const shared = 256

func (w *writer) flush() {
	if len(w.b) == 0 {
		return
	}
	w.Sum = crc32.Update(w.Sum, crc32.IEEETable, w.b)
	w.pieces, w.starts = append(w.pieces, w.b), append(w.starts, w.Size)
	w.Size += int64(len(w.b))
	w.b = nil
}

func (w *writer) bytes(p []byte) {
	if len(p) < shared {
		w.b = append(w.b, p...)
		return
	}
	w.flush()
	w.b = p[:len(p):len(p)]
	w.flush()
}

func (w *writer) text(s string) { w.b = append(w.b, s...) }
func (w *writer) str(s string)  { w.vint(int64(len(s))); w.text(s) }
func (w *writer) u8(v byte)     { w.b = append(w.b, v) }
func (w *writer) vint(v int64)  { w.b = binary.AppendUvarint(w.b, uint64(v)) }

func (w *writer) i32(v int32) {
	if w.little {
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(v))
	} else {
		w.b = binary.BigEndian.AppendUint32(w.b, uint32(v))
	}
}

func (w *writer) i64(v int64) {
	if w.little {
		w.b = binary.LittleEndian.AppendUint64(w.b, uint64(v))
	} else {
		w.b = binary.BigEndian.AppendUint64(w.b, uint64(v))
	}
}

// strings writes a map in the order of its keys.
func (w *writer) strings(m map[string]string) {
	w.vint(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.str(k)
		w.str(m[k])
	}
}

// at returns the offset of the next byte.
func (w *writer) at() int64 { return w.Size + int64(len(w.b)) }

// indexHeader starts a file of a segment.
func indexHeader(name, codecName string, version int32, id, suffix string) *writer {
	w := &writer{Added: Added{Name: name}}
	w.b = binary.BigEndian.AppendUint32(w.b, codec.HeaderMagic)
	w.str(codecName)
	w.i32(version)
	w.text(id)
	w.u8(byte(len(suffix)))
	w.text(suffix)
	w.little = codec.LittleEndian(codecName)
	return w
}

// end writes the footer and returns the file.
func (w *writer) end() *Added {
	w.b = binary.BigEndian.AppendUint32(w.b, codec.FooterMagic)
	w.i32(0)
	w.flush()
	sum := w.Sum
	w.b = binary.BigEndian.AppendUint64(w.b, uint64(sum))
	w.flush()
	w.Sum = sum
	return &w.Added
}

// addedSegment is the name of the segment that Apply adds. It is the last one in the order of ordinals, and no name that Lucene assigns.
const addedSegment = "_~translog"

// The fields of the added segment, by number.
const (
	fieldID = iota
	fieldSource
	fieldRouting
	fieldSeqNo
	fieldTerm
	fieldVersion
)

// addedFields are their names. A translog holds the source as the client sent it, like _recovery_source and unlike a filtered _source.
var addedFields = []string{"_id", "_recovery_source", "_routing", seqNo, primaryTerm, versionField}

const addedColumns = "Lucene90_0"

// segmentFiles returns the files of a segment that holds the documents of operations: the simplest of the forms that are read.
func segmentFiles(ops []Operation, id, version string) []*Added {
	si := indexHeader(addedSegment+".si", "Lucene90SegmentInfo", 0, id, "")
	var major, minor, bugfix int32
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &bugfix) // informational
	for _, v := range []int32{major, minor, bugfix} {
		si.i32(v)
	}
	si.u8(0)
	si.i32(int32(len(ops)))
	si.bytes([]byte{0xFF, 0xFF, 0, 0, 0, 0}) // not compound, no blocks; no diagnostics, files, attributes, sort fields

	fnm := indexHeader(addedSegment+".fnm", "Lucene94FieldInfos", 1, id, "")
	fnm.vint(int64(len(addedFields)))
	for number, name := range addedFields {
		fnm.str(name)
		fnm.vint(int64(number))
		fnm.bytes([]byte{0, 0})
		attributes := map[string]string{}
		if number < fieldSeqNo {
			fnm.u8(0)
		} else {
			fnm.u8(dvNumeric)
			format, suffix, _ := strings.Cut(addedColumns, "_")
			attributes["PerFieldDocValuesFormat.format"], attributes["PerFieldDocValuesFormat.suffix"] = format, suffix
		}
		fnm.i64(-1)
		fnm.strings(attributes)
		fnm.bytes([]byte{0, 0, 0, 0}) // neither points nor vectors
	}
	return append(append(numberFiles(ops, id), storedFiles(ops, id)...), si.end(), fnm.end())
}

// numberFiles writes the numbers of the documents, with 64 bits each.
func numberFiles(ops []Operation, id string) []*Added {
	dvm := indexHeader(addedSegment+"_"+addedColumns+".dvm", "Lucene90DocValuesMetadata", 0, id, addedColumns)
	dvd := indexHeader(addedSegment+"_"+addedColumns+".dvd", "Lucene90DocValuesData", 0, id, addedColumns)
	for _, column := range []struct {
		number int32
		value  func(*Operation) int64
	}{
		{fieldSeqNo, func(o *Operation) int64 { return o.Seq }},
		{fieldTerm, func(o *Operation) int64 { return o.Term }},
		{fieldVersion, func(o *Operation) int64 { return o.Version }},
	} {
		start := dvd.at()
		for i := range ops {
			dvd.i64(column.value(&ops[i]))
		}
		dvm.i32(column.number)
		dvm.u8(0)
		dvm.i64(-1) // all documents have a value
		dvm.i64(0)
		dvm.bytes([]byte{0xFF, 0xFF, 0xFF})
		dvm.i64(int64(len(ops)))
		dvm.i32(-1)
		dvm.u8(64)
		dvm.i64(0)
		dvm.i64(1)
		dvm.i64(start)
		dvm.i64(dvd.at() - start)
		dvm.i64(-1)
	}
	dvm.i32(-1)
	return []*Added{dvm.end(), dvd.end()}
}

const (
	// addedSlice is the length of the slices of long documents, in bytes.
	addedSlice = 1 << 20
	// addedBlock is the number of chunks of a block of the chunk index.
	addedBlock = 1024
)

// storedFiles writes the stored fields: one chunk for each document, which is a sequence of literals.
func storedFiles(ops []Operation, id string) []*Added {
	const format, packed = "Lucene50StoredFieldsFast", 2
	fdt := indexHeader(addedSegment+".fdt", format+"Data", 1, id, "")
	fdt.vint(addedSlice)
	fdt.vint(packed)
	pointers := make([]int64, len(ops))
	for i := range ops {
		pointers[i] = fdt.at()
		fields, parts, length := ops[i].stored()
		sliced := int64(0)
		if length >= 2*addedSlice {
			sliced = 1
		}
		fdt.vint(int64(i))
		fdt.vint(1<<1 | sliced)
		fdt.vint(fields)
		fdt.vint(length)
		fdt.literals(parts, length, sliced != 0)
	}
	end := fdt.at()
	fdt.vint(int64(len(ops)))
	fdt.vint(0)
	fdx := indexHeader(addedSegment+".fdx", format+"Index", 1, id, "")
	fdx.vint(packed)
	for first := 0; first < len(ops); first += addedBlock {
		block := pointers[first:min(first+addedBlock, len(ops))]
		fdx.vint(int64(len(block)))
		fdx.vint(int64(first))
		fdx.bytes([]byte{1, 0, 0, 0, 64}) // a document each, as a line; pointers with 64 bits
		for _, p := range block {
			fdx.i64(p << 1)
		}
	}
	fdx.vint(0)
	fdx.vint(end)
	return []*Added{fdt.end(), fdx.end()}
}

// stored returns the number of stored fields of the document, and its bytes in parts.
func (o *Operation) stored() (fields int64, parts [][]byte, length int64) {
	const text, binaryType = 0, 1
	add := func(number, kind int, value []byte) {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3|kind)), uint64(len(value)))
		fields, parts, length = fields+1, append(parts, head, value), length+int64(len(head)+len(value))
	}
	add(fieldID, binaryType, o.ID)
	add(fieldSource, binaryType, o.Source)
	if o.Routing != nil {
		add(fieldRouting, text, o.Routing)
	}
	return fields, parts, length
}

// literals writes the parts of a document as LZ4 that only consists of literals, in one unit or in slices.
func (w *writer) literals(parts [][]byte, length int64, sliced bool) {
	unit := length
	if sliced {
		unit = addedSlice
	}
	for left := int64(0); len(parts) > 0; parts = parts[1:] {
		for p := parts[0]; len(p) > 0; {
			if left == 0 {
				left = min(unit, length)
				length -= left
				w.literalHead(left)
			}
			n := min(left, int64(len(p)))
			w.bytes(p[:n])
			p, left = p[n:], left-n
		}
	}
}

// literalHead writes the head of a sequence of n literals that ends its block.
func (w *writer) literalHead(n int64) {
	if n < 15 {
		w.u8(byte(n << 4))
		return
	}
	w.u8(15 << 4)
	for n -= 15; n >= 255; n -= 255 {
		w.u8(255)
	}
	w.u8(byte(n))
}
