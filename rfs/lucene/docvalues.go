package lucene

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

/*
.dvm, the metadata of doc values. Soft deletes exist since Lucene 7.3, so the codecs
Lucene70, 80 and 90DocValuesMetadata are all that is needed (70 and 80 big-endian, 90
little-endian). Index header, then until field number -1:

	i32 field | u8 type (0 numeric 1 binary 2 sorted 3 sorted-set 4 sorted-numeric)
	90, field with a skip index: 4 i64, 2 i32 [v2: i32]
	body by type
	footer

	SET      i64 off (-2 none, -1 all documents), i64 len [80, 90: i16 jumps, i8 rank power]
	NUM      SET, i64 values, i32 table size n, max(n,0) of i64, i8 bits, i64 min, i64 gcd,
	         i64 off, i64 len [80, 90: i64 jump table]
	MONO(n)  monotonic metadata of n values (package codec)
	ADDR(n)  i64 off, VInt shift, MONO(n), i64 len

	numeric         NUM
	sorted-numeric  NUM, i32 docs, [docs != values: ADDR(docs+1)]
	binary          i64 off, i64 len, SET, i32 docs, i32 min, i32 max,
	                [compressed and docs>0, or min<max: i64 off, compressed: 3 VInt;
	                 VInt shift, MONO(compressed ? chunks : docs+1), i64 len]
	                compressed: 80 v1, or 80 v2 with Lucene80DocValuesFormat.mode BEST_COMPRESSION
	sorted          90: NUM, TERMS; else SET, i32 docs, i8 bits, i64 off, i64 len, TERMS
	sorted-set      u8 multi; 0: sorted; 1: 90: sorted-numeric, TERMS
	                else SET, i8 bits, i64 off, i64 len, i32 docs, ADDR(docs+1), TERMS
	TERMS           VLong n, [70, 80: i32 block shift b (80: 0x00060001 means 6, compressed)]
	                i32 shift, MONO(ceil(n/2^b), 90: b=6), i32 longest, [90, compressed: i32],
	                4 i64, i32 s, MONO(1+ceil(n/2^s)), 4 i64

The set of documents that have a value lies in the .dvd file (parseSet).
*/
type numericEntry struct {
	off, size int64 // of the set in .dvd; off -2 no document, -1 all documents
	rankPower int8  // -1: no rank tables
	values    int64
}

const (
	setNone = -2
	setAll  = -1
)

type dvWalker struct {
	in      *codec.Input
	gen     int // 70, 80 or 90
	version int32
	fields  map[int32]*fieldInfo
}

var dvGenerations = map[string]int{
	"Lucene70DocValuesMetadata": 70,
	"Lucene80DocValuesMetadata": 80,
	"Lucene90DocValuesMetadata": 90,
}

// knownDocValues are the per-field formats whose files can be read.
var knownDocValues = map[string]bool{"Lucene70": true, "Lucene80": true, "Lucene90": true}

// parseDocValuesMeta gives the numeric columns of a .dvm file by field number.
func parseDocValuesMeta(b []byte, id, suffix string, fields map[int32]*fieldInfo) (map[int32]numericEntry, error) {
	in := codec.NewInput(b)
	h := in.IndexHeader()
	if in.Err() != nil {
		return nil, in.Err()
	}
	gen, ok := dvGenerations[h.Codec]
	switch {
	case !ok:
		return nil, fmt.Errorf("doc values of codec %q are not known: %w", h.Codec, fault.ErrUnsupported)
	case h.Suffix != suffix:
		return nil, codec.Errorf(0, "suffix %q where %q is expected", h.Suffix, suffix)
	case id != "" && h.ID != id:
		return nil, codec.Errorf(0, "the file belongs to segment %x, not %x", h.ID, id)
	}
	w := &dvWalker{in: in, gen: gen, version: h.Version, fields: fields}
	out := make(map[int32]numericEntry)
	for in.Err() == nil {
		f := in.I32()
		if f == -1 {
			break
		}
		if in.Err() == nil && fields[f] == nil {
			in.Fail("field %d is not in the field infos", f)
		}
		if in.Err() == nil {
			w.field(f, out)
		}
	}
	if in.Err() == nil && in.Left() != codec.FooterLen {
		in.Fail("%d bytes left where the footer begins", in.Left())
	}
	return out, in.Err()
}

func (w *dvWalker) field(number int32, out map[int32]numericEntry) {
	in := w.in
	typ := in.U8()
	if w.gen == 90 && w.fields[number].skipIndex {
		in.Take(4*8 + 2*4)
		if w.version >= 2 {
			in.Take(4)
		}
	}
	switch typ {
	case 0:
		out[number] = w.numeric()
	case 1:
		w.binary(w.fields[number])
	case 2:
		w.sorted()
	case 3:
		w.sortedSet()
	case 4:
		w.sortedNumeric()
	default:
		in.Fail("doc values of type %d", typ)
	}
}

func (w *dvWalker) set() (off, size int64, rank int8) {
	off, size, rank = w.in.I64(), w.in.I64(), -1
	if w.gen >= 80 {
		w.in.I16()
		rank = int8(w.in.U8())
	}
	return off, size, rank
}

func (w *dvWalker) numeric() numericEntry {
	var e numericEntry
	e.off, e.size, e.rankPower = w.set()
	e.values = w.in.I64()
	if n := w.in.I32(); n > 0 {
		if int64(n) > int64(w.in.Left())/8 {
			w.in.Fail("table of %d values", n)
			return e
		}
		w.in.Take(int(n) * 8)
	}
	w.in.Take(1 + 4*8)
	if w.gen >= 80 {
		w.in.I64()
	}
	return e
}

func (w *dvWalker) sortedNumeric() {
	e := w.numeric()
	if docs := w.in.I32(); int64(docs) != e.values {
		w.addresses(int64(docs) + 1)
	}
}

func (w *dvWalker) addresses(n int64) {
	w.in.I64()
	shift := w.in.VInt()
	w.in.Monotonic(n, shift)
	w.in.I64()
}

func (w *dvWalker) binary(f *fieldInfo) {
	in := w.in
	in.Take(16)
	w.set()
	docs, shortest, longest := in.I32(), in.I32(), in.I32()
	compressed := w.gen == 80 && (w.version == 1 ||
		w.version >= 2 && f.attrs["Lucene80DocValuesFormat.mode"] == "BEST_COMPRESSION")
	if (!compressed || docs <= 0) && shortest >= longest {
		return
	}
	in.I64()
	n := int64(docs) + 1
	if compressed {
		n = int64(in.VInt())
		in.VInt()
		in.VInt()
	}
	shift := in.VInt()
	in.Monotonic(n, shift)
	in.I64()
}

func (w *dvWalker) sorted() {
	if w.gen == 90 {
		w.numeric()
	} else {
		w.set()
		w.in.Take(4 + 1 + 16)
	}
	w.terms()
}

func (w *dvWalker) sortedSet() {
	if w.in.U8() == 0 {
		w.sorted()
		return
	}
	if w.gen == 90 {
		w.sortedNumeric()
	} else {
		w.set()
		w.in.Take(1 + 16)
		docs := w.in.I32()
		w.addresses(int64(docs) + 1)
	}
	w.terms()
}

func (w *dvWalker) terms() {
	in := w.in
	n := in.VLong()
	blockShift, compressed := int32(6), true
	if w.gen != 90 {
		blockShift = in.I32()
		if compressed = w.gen == 80 && blockShift == 6<<16|1; compressed {
			blockShift = 6
		}
	}
	shift := in.I32()
	in.Monotonic(blocks(in, n, blockShift), shift)
	in.Take(4)
	if compressed {
		in.Take(4)
	}
	in.Take(32)
	indexShift := in.I32()
	in.Monotonic(1+blocks(in, n, indexShift), shift)
	in.Take(32)
}

// blocks is ceil(n / 2^shift).
func blocks(in *codec.Input, n int64, shift int32) int64 {
	if n < 0 || shift < 0 || shift > 30 {
		in.Fail("%d terms in blocks of 2^%d", n, shift)
		return 0
	}
	b := n >> shift
	if n&(1<<shift-1) != 0 {
		b++
	}
	return b
}
