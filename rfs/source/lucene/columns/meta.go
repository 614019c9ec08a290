// Package columns reads doc values: for each field of a segment the values of all documents, as a column in the file .dvd, described in
// .dvm. It reads the formats of Lucene 4.5 and later, and Elasticsearch's own for time series and logs.
package columns

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
.dvm, the metadata of doc values. Index header, then until field number -1:

	i32 field | u8 type (0 numeric 1 binary 2 sorted 3 sorted-set 4 sorted-numeric)
	90 and TSDB, field with a skip index: 4 i64, 2 i32 [90 v2, TSDB v7: i32]
	body by type
	footer

Codecs Lucene70, 80 and 90DocValuesMetadata (70 and 80 big-endian, 90 little-endian):

	SET      i64 off (-2 none, -1 all documents), i64 len [80, 90: i16 jumps, i8 rank power]
	NUM      SET, i64 values, i32 table size n, max(n,0) of i64, i8 bits, i64 min, i64 gcd,
	         i64 off, i64 len [80, 90: i64 jump table]
	MONO(n)  monotonic metadata of n values (package codec)
	ADDR(n)  i64 off, VInt shift, MONO(n), i64 len

	numeric         NUM
	sorted-numeric  NUM, i32 docs, [docs != values: ADDR(docs+1)]
	binary          i64 off, i64 len, SET, i32 docs, i32 min, i32 max,
	                compressed and docs>0: i64 off, VInt chunks, VInt chunk shift, VInt longest,
	                                       VInt shift, MONO(chunks), i64 len
	                else [min<max: ADDR(docs+1)]
	                compressed: 80 v1, or 80 v2 with Lucene80DocValuesFormat.mode BEST_COMPRESSION
	sorted          90: NUM, TERMS; else SET, i32 docs, i8 bits, i64 off, i64 len, TERMS
	sorted-set      u8 multi; 0: sorted; 1: 90: sorted-numeric, TERMS
	                else SET, i8 bits, i64 off, i64 len, i32 docs, ADDR(docs+1), TERMS
	TERMS           VLong n, [70, 80: i32 block shift b (80: 0x00060001 means 6, compressed)]
	                i32 shift, MONO(ceil(n/2^b), 90: b=6), i32 longest, [90, compressed: i32],
	                4 i64, i32 s, MONO(1+ceil(n/2^s)), 4 i64

ES87TSDBDocValuesMetadata v0 and v1 (Elasticsearch 8.7 to 8.18), ES819TSDBDocValuesMetadata v0..8 (8.19 and 9)
and ES95TSDBDocValuesMetadata v8 (9.5), little-endian: tsdbWalker. Other formats of the family are refused.

Lucene45, 49 and 410ValuesMetadata, DiskDocValuesMetadata, Lucene50 and 54DocValuesMetadata: oldWalker.

The set of documents that have a value is in the .dvd file (blockSet).
*/

// Kind is the type of a column.
type Kind uint8

// The types of columns, as .dvm numbers them.
const (
	Numeric       Kind = iota // one number per document
	Binary                    // one string of bytes a document
	Sorted                    // one of a sorted list of terms
	SortedSet                 // several of a sorted list of terms
	SortedNumeric             // several numbers
)

// Field holds the properties of a field that are needed to read its column.
type Field struct {
	SkipIndex  bool // it has a skip index
	Compressed bool // its attributes state that Lucene80 compresses its binary values
	Sorts      bool // the segment is sorted by it first, in ascending order
	Unwanted   bool // its column is not returned
}

// Entry describes one column: which documents have values, and where the values are.
type Entry struct {
	Kind   Kind
	Docs   int64 // documents that have a value
	Values int64 // all values; in a sorted column, all ordinals
	le     bool

	set       docSet
	numbers   numbers
	addresses *sequence // start of the values of each document; nil: one value each
	terms     *terms    // of sorted columns
	blobs     *blobs

	old *oldColumn // of Lucene 4 and 5
	err error      // the form of the column is unknown
}

// docSet is the location of the set of documents in .dvd.
type docSet struct {
	off, size int64 // off -2 no document, -1 all documents
	rankPower int8  // -1: no rank tables
}

const (
	setNone = -2
	setAll  = -1
)

// Known reports whether columns of a per-field format can be read.
func Known(format string) bool {
	switch format {
	case "Disk", "Lucene45", "Lucene49", "Lucene410", "Lucene50", "Lucene54", "Lucene70", "Lucene80", "Lucene90", "ES87TSDB", "ES819TSDB", "ES8193TSDB", "ES95TSDB":
		return true
	}
	return false
}

// Files returns the extensions of the metadata and the data file of a per-field format.
func Files(format string) (meta, data string) {
	if format == "Disk" {
		return ".dvdm", ".dvdd"
	}
	return ".dvm", ".dvd"
}

// walker reads the entries of a .dvm file of Lucene.
type walker struct {
	in      *codec.Input
	gen     int // 70, 80 or 90; 0 for TSDB; of oldWalker 54, 50 or less
	version int32
	le      bool
}

var generations = map[string]int{
	"Lucene70DocValuesMetadata": 70,
	"Lucene80DocValuesMetadata": 80,
	"Lucene90DocValuesMetadata": 90,
}

// ParseMeta returns the columns of a .dvm file by field number. id is the segment's id, "" if it is unknown;
// field returns the properties of a field, false if it does not exist.
func ParseMeta(b []byte, id, suffix string, field func(number int32) (Field, bool)) (map[int32]*Entry, error) {
	in := codec.NewInput(b)
	h := in.Header()
	if plain := WithoutID(h.Codec); plain {
		id, suffix = "", ""
	} else {
		h.ID, h.Suffix = string(in.Take(16)), string(in.Take(int(in.U8())))
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	w := walker{in: in, gen: generations[h.Codec], version: h.Version, le: codec.LittleEndian(h.Codec)}
	body := w.body
	read := func() (map[int32]*Entry, error) { return w.entries(body, field) }
	switch {
	case w.gen != 0:
	case oldGenerations[h.Codec] != 0:
		w.gen = oldGenerations[h.Codec]
		read = func() (map[int32]*Entry, error) { return w.old(field) }
	case tsdbVersions(h.Codec) != nil:
		t, err := newTSDBWalker(&w, h.Codec, h.Suffix)
		if err != nil {
			return nil, err
		}
		body = t.body
	default:
		return nil, fmt.Errorf("doc values of codec %q are unknown: %w", h.Codec, fault.ErrUnsupported)
	}
	switch {
	case h.Suffix != suffix:
		return nil, codec.Errorf(0, "suffix %q where %q is expected", h.Suffix, suffix)
	case id != "" && h.ID != id:
		return nil, codec.Errorf(0, "the file belongs to segment %x, not %x", h.ID, id)
	}
	out, err := read()
	footer := 0
	if w.footed() {
		footer = codec.FooterLen
	}
	if err == nil && in.Left() != footer {
		in.Fail("%d bytes left where %d of the footer follow", in.Left(), footer)
		err = in.Err()
	}
	return out, err
}

// entries reads the columns of a file of Lucene 7 and later.
func (w *walker) entries(body func(f Field, e *Entry), field func(number int32) (Field, bool)) (map[int32]*Entry, error) {
	in := w.in
	out := make(map[int32]*Entry)
	for in.Err() == nil {
		number := in.I32()
		if number == -1 {
			break
		}
		f, ok := field(number)
		if in.Err() == nil && !ok {
			in.Fail("field %d is not in the field infos", number)
		}
		if in.Err() == nil {
			e := &Entry{le: w.le}
			if body(f, e); !f.Unwanted {
				out[number] = e
			}
		}
	}
	return out, in.Err()
}

// kind reads the type of a column and skips its skip index.
func (w *walker) kind(f Field, skips, counts bool) Kind {
	k := w.in.U8()
	if skips && f.SkipIndex {
		w.in.Take(4*8 + 2*4)
		if counts {
			w.in.Take(4)
		}
	}
	if Kind(k) > SortedNumeric {
		w.in.Fail("doc values of type %d", k)
	}
	return Kind(k)
}

func (w *walker) body(f Field, e *Entry) {
	e.Kind = w.kind(f, w.gen == 90, w.version >= 2)
	switch e.Kind {
	case Numeric:
		w.numeric(e)
		e.Docs = e.Values
	case Binary:
		w.binary(f, e)
	case Sorted:
		w.sorted(e)
	case SortedSet:
		w.sortedSet(e)
	case SortedNumeric:
		w.sortedNumeric(e)
	}
}

func (w *walker) set() docSet {
	s := docSet{off: w.in.I64(), size: w.in.I64(), rankPower: -1}
	if w.gen == 0 || w.gen >= 80 {
		w.in.I16()
		s.rankPower = int8(w.in.U8())
	}
	return s
}

func (w *walker) numeric(e *Entry) {
	in := w.in
	e.set = w.set()
	e.Values = in.I64()
	n := &e.numbers
	n.form, n.values = formPacked, e.Values
	switch size := in.I32(); {
	case size > 0:
		if int64(size) > int64(in.Left())/8 {
			in.Fail("table of %d values", size)
			return
		}
		n.table = make([]int64, size)
		for i := range n.table {
			n.table[i] = in.I64()
		}
	case size < -1:
		if n.form, n.shift = formBlocks, -2-size; n.shift > maxBlockShift {
			in.Fail("values in blocks of 2^%d", n.shift)
		}
	}
	n.bits = in.U8()
	n.min, n.factor = in.I64(), in.I64()
	n.off, n.size = in.I64(), in.I64()
	if w.gen >= 80 {
		in.I64() // a table of jumps: columns are read in order
	}
}

func (w *walker) sortedNumeric(e *Entry) {
	w.numeric(e)
	if e.Docs = int64(w.in.I32()); e.Docs != e.Values {
		e.addresses = w.sequence(e.Docs + 1)
	}
}

// sequence reads an ADDR of n values.
func (w *walker) sequence(n int64) *sequence {
	s := &sequence{off: w.in.I64(), le: w.le}
	s.meta = w.in.Monotonic(n, w.in.VInt())
	s.size = w.in.I64()
	return s
}

func (w *walker) binary(f Field, e *Entry) {
	in := w.in
	b := &blobs{off: in.I64(), size: in.I64()}
	e.blobs, e.set = b, w.set()
	e.Docs = int64(in.I32())
	e.Values = e.Docs
	b.shortest, b.longest = in.I32(), in.I32()
	compressed := w.gen == 80 && (w.version == 1 || w.version >= 2 && f.Compressed)
	switch {
	case compressed && e.Docs > 0:
		w.lz4Chunks(b, e.Docs)
	case b.shortest < b.longest:
		b.addresses = w.sequence(e.Docs + 1)
	}
}

// lz4Chunks reads the location of the compressed chunks of binary values of Lucene 8.
func (w *walker) lz4Chunks(b *blobs, docs int64) {
	in := w.in
	addresses := &sequence{off: in.I64(), le: w.le}
	n := int64(in.VInt())
	b.chunks = &chunks{addresses: addresses, shift: in.VInt(), longest: in.VInt()}
	addresses.meta = in.Monotonic(n, in.VInt())
	addresses.size = in.I64()
	if s := b.chunks.shift; s < 0 || s > maxChunkShift || n != (docs+1<<s-1)>>s {
		in.Fail("%d chunks of 2^%d values of %d documents", n, s, docs)
	}
}

func (w *walker) sorted(e *Entry) {
	if w.gen == 90 {
		w.numeric(e)
		e.Docs = e.Values
	} else {
		e.set = w.set()
		e.Docs = int64(w.in.I32())
		e.Values = e.Docs
		w.ordinals(e)
	}
	w.terms(e)
}

// ordinals reads the location of the ordinals in Lucene 7 and 8.
func (w *walker) ordinals(e *Entry) {
	e.numbers = numbers{form: formPacked, bits: w.in.U8(), factor: 1, off: w.in.I64(), size: w.in.I64(), values: e.Values}
}

func (w *walker) sortedSet(e *Entry) {
	if w.in.U8() == 0 {
		w.sorted(e)
		return
	}
	if w.gen == 90 {
		w.sortedNumeric(e)
	} else {
		e.set = w.set()
		w.ordinals(e)
		e.Docs = int64(w.in.I32())
		e.addresses = w.sequence(e.Docs + 1)
		e.Values = -1 // only the last address states it
		e.numbers.values = -1
	}
	w.terms(e)
}

func (w *walker) terms(e *Entry) {
	in := w.in
	t := &terms{n: in.VLong(), shift: 6, compressed: true}
	if w.gen == 70 || w.gen == 80 {
		t.shift = in.I32()
		if t.compressed = w.gen == 80 && t.shift == 6<<16|1; t.compressed {
			t.shift = 6
		}
	}
	e.terms = t
	shift := in.I32()
	t.addresses = sequence{meta: in.Monotonic(blocks(in, t.n, t.shift), shift), le: w.le}
	t.longest = in.I32()
	if t.compressed {
		t.longestBlock = in.I32()
	}
	t.off, t.size = in.I64(), in.I64()
	t.addresses.off, t.addresses.size = in.I64(), in.I64()
	indexShift := in.I32()
	in.Monotonic(1+blocks(in, t.n, indexShift), shift)
	in.Take(32)
}

// blocks returns ceil(n / 2^shift).
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
