package columns

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

/*
.dvm of Lucene 4.5 to 4.8 (Lucene45, plain header, a footer since version 2), 4.9 (Lucene49, plain header), 4.10 (Lucene410,
plain header), 5.0 (Lucene50) and 5.4 to 6 (Lucene54), big-endian. Fields follow until VInt number -1:

	VInt field | u8 type (0 numeric 1 binary 2 sorted 3 sorted-set 4 sorted-numeric) | body by type

	numeric         NUM
	binary          BIN
	sorted          part BIN: the terms, part NUM: ordinals, -1 none
	sorted-set      [not 45 v0: VInt form: 1 single: part sorted]; 0 lists: part BIN, part NUM of ordinals, part NUM of the lists
	                [50, 54: 2 sets: SETS, part BIN, part NUM of set numbers]
	sorted-numeric  not 45: VInt form: 1 single: part NUM; 0 lists: part NUM, part NUM of the lists
	                [50, 54: 2 sets: SETS, part NUM of set numbers]
	part            VInt field, u8 type, body
	SETS            i32 n, n of i64; i32 sets, the length of each: i32

	NUM   VInt form | i64 missing (a bitmap of the documents with a value, bit i%8 of byte i/8; -1 all, -2 none)
	      [5: VLong n, VInt shift, MONO(n): the documents, at missing] | i64 off | VLong values
	      0 delta: i64 min, VInt bits | 1 divided: i64 min, i64 divisor, VInt bits | 2 table: VInt n, n of i64, VInt bits
	      3 lists: 54: VInt shift, MONO(values+1); else VInt packed version, VInt block size: PACKED(values+1) at off
	      4 one value (50, 54): i64 | 5 sparse (54): u8, part NUM of the documents that have a value
	      i64 end
	45    NUM is VInt form | i64 missing | VInt packed version | i64 off | VLong values | VInt block size
	      0 lists: PACKED(values), the end of each list; others: BLOCKS | 1 divided: i64 min, i64 divisor: BLOCKS
	      2 table: VInt n, n of i64: packed values of as many bits as n-1 takes
	BIN   VInt form | i64 missing | VInt shortest | VInt longest | VLong values | i64 off
	      0 equally long | 1: i64 addresses; 54: VInt shift, MONO(values+1), i64 end; else VInt packed version, VInt block size
	      2 shared prefixes, in blocks of 16: i64 addresses, VInt packed version, VInt block size, i64 reverse index
	      45: form 1 is PACKED(values), the end of each value; 45, 49: form 2 starts with VInt terms of a block, has no reverse index

Numbers, sets and lists are stored for each document, even if it has no value (except in form 5 of NUM).
*/
type oldWalker struct {
	*walker
	field int32
}

// oldColumn holds the properties that only columns of Lucene 4 and 5 have.
type oldColumn struct {
	missing  int64     // offset of the bitmap of documents, or setAll, setNone
	docs     *sequence // the documents that have a value, if they are few
	count    int64     // of docs
	ordinals bool      // a negative number means no value
	sets     [][]int64 // a document's number selects a set
	terms    *oldTerms
}

var oldGenerations = map[string]int{
	"DiskDocValuesMetadata":     gen45, // mappings of Elasticsearch 1.0 to 1.3 could select it
	"Lucene45ValuesMetadata":    gen45,
	"Lucene49ValuesMetadata":    gen49,
	"Lucene410ValuesMetadata":   gen410,
	"Lucene50DocValuesMetadata": 50,
	"Lucene54DocValuesMetadata": 54,
}

// The generations of Lucene 4. They precede the generations of Lucene 5, whose numbers appear in the names of their formats.
const (
	gen45 = iota + 1
	gen49
	gen410
)

// newestOld are the newest versions of the generations that have several.
var newestOld = map[int]int32{gen45: 2, 50: 1}

const (
	singles45 = 1 // since this version of Lucene45, sorted sets may have one value each
	footed45  = 2 // since this version its files have a footer

	leastBlock45 = 1 << 12 // minimum values of a block, since the reader keeps its head; writers use 16,384

	maxTable    = 256
	maxOldBlock = 1 << 27
)

// old reads the columns of a file of Lucene 4 or 5.
func (w *walker) old(field func(number int32) (Field, bool)) (map[int32]*Entry, error) {
	in := w.in
	if w.version < 0 || w.version > newestOld[w.gen] {
		return nil, fmt.Errorf("doc values of Lucene 4 to 6, version %d, are unknown: %w", w.version, fault.ErrUnsupported)
	}
	out := make(map[int32]*Entry)
	for in.Err() == nil {
		number := in.VInt()
		if number == -1 {
			break
		}
		if _, ok := field(number); in.Err() == nil && !ok {
			in.Fail("field %d is not in the field infos", number)
		}
		if in.Err() == nil {
			e := &Entry{old: &oldColumn{missing: setAll}}
			(&oldWalker{w, number}).body(e)
			out[number] = e
		}
	}
	return out, in.Err()
}

func (w *oldWalker) body(e *Entry) {
	e.Kind = Kind(w.in.U8())
	switch e.Kind {
	case Numeric:
		w.numeric(e)
	case Binary:
		w.binary(e)
	case Sorted:
		w.sorted(e)
	case SortedSet:
		w.sortedSet(e)
	case SortedNumeric:
		if w.gen == gen45 {
			w.in.Fail("doc values of type %d", e.Kind)
		}
		w.sortedNumeric(e)
	default:
		w.in.Fail("doc values of type %d", e.Kind)
	}
}

// part reads the head of a part of the column.
func (w *oldWalker) part(kind Kind) {
	number, k := w.in.VInt(), Kind(w.in.U8())
	if w.in.Err() == nil && (number != w.field || k != kind) {
		w.in.Fail("part of field %d of type %d, where one of field %d of type %d is expected", number, k, w.field, kind)
	}
}

const (
	oldLists = iota
	oldSingle
	oldSets
)

func (w *oldWalker) form(e *Entry) int32 {
	form := w.in.VInt()
	if form == oldSets && w.gen >= 50 {
		w.sets(e)
	} else if form != oldLists && form != oldSingle {
		w.in.Fail("values of form %d", form)
	}
	return form
}

func (w *oldWalker) sets(e *Entry) {
	in := w.in
	table := make([]int64, w.most(in.I32()))
	for i := range table {
		table[i] = in.I64()
	}
	e.old.sets = make([][]int64, w.most(in.I32()-1)+1) // one more may be empty
	for i := range e.old.sets {
		n := in.I32()
		if in.Err() != nil || n < 0 || int(n) > len(table) {
			in.Fail("set of %d of %d values", n, len(table))
			return
		}
		e.old.sets[i], table = table[:n], table[n:]
	}
}

// most returns the length n of a table, or 0 and a failure if it is out of bounds.
func (w *oldWalker) most(n int32) int32 {
	if w.in.Err() != nil || n < 0 || n > maxTable {
		w.in.Fail("table of %d", n)
		return 0
	}
	return n
}

func (w *oldWalker) sorted(e *Entry) {
	w.terms(e)
	w.part(Numeric)
	w.numeric(e)
	e.old.ordinals = true
}

func (w *oldWalker) sortedSet(e *Entry) {
	form := int32(oldLists)
	if w.gen != gen45 || w.version >= singles45 {
		form = w.form(e)
	}
	if form == oldSingle {
		w.part(Sorted)
		w.sorted(e)
		return
	}
	w.terms(e)
	w.part(Numeric)
	w.numeric(e)
	if form == oldLists {
		w.part(Numeric)
		w.lists(e)
	}
}

func (w *oldWalker) sortedNumeric(e *Entry) {
	form := w.form(e)
	w.part(Numeric)
	w.numeric(e)
	if form == oldLists {
		w.part(Numeric)
		w.lists(e)
	}
}

// numeric reads a NUM that is not a list.
func (w *oldWalker) numeric(e *Entry) {
	in := w.in
	form := in.VInt()
	e.old.missing = in.I64()
	switch {
	case w.gen == gen45:
		w.blocked(e, form)
	case form == 5 && w.gen >= 54:
		w.sparse(e)
	default:
		w.numbers(e, form)
	}
}

func (w *oldWalker) sparse(e *Entry) {
	in, old := w.in, e.old
	at := old.missing
	old.count = in.VLong()
	shift := in.VInt()
	old.docs = &sequence{meta: in.Monotonic(old.count, shift), off: at}
	old.docs.size = in.I64() - at
	in.VLong()
	in.U8()
	w.part(Numeric)
	form := in.VInt()
	in.I64()
	w.numbers(e, form)
	in.I64()
	old.missing = setAll
}

func (w *oldWalker) numbers(e *Entry, form int32) {
	in, n := w.in, &e.numbers
	n.form, n.factor = formPacked, 1
	n.off, n.values = in.I64(), in.VLong()
	e.Values, e.Docs = n.values, n.values
	width := int32(0)
	switch {
	case form == 0:
		n.min, width = in.I64(), in.VInt()
	case form == 1:
		n.min, n.factor, width = in.I64(), in.I64(), in.VInt()
	case form == 2:
		n.table = make([]int64, w.most(in.VInt()))
		for i := range n.table {
			n.table[i] = in.I64()
		}
		width = in.VInt()
	case form == 4 && w.gen >= 50:
		n.min = in.I64()
	default:
		in.Fail("numbers of form %d", form)
	}
	n.size = in.I64() - n.off
	if in.Err() == nil && (width < 0 || width > 64 || n.values < 0) {
		in.Fail("%d packed values of %d bits", n.values, width)
	}
	n.bits = uint8(width)
}

// lists reads a NUM with the start of the values of each document.
func (w *oldWalker) lists(e *Entry) {
	if w.gen == gen45 {
		w.ends(e)
		return
	}
	in := w.in
	form := in.VInt()
	in.I64()
	s := &sequence{off: in.I64()}
	e.addresses = s
	n := in.VLong()
	if in.Err() == nil && form != 3 {
		in.Fail("lists of form %d", form)
	}
	e.Docs = n
	if w.gen >= 54 {
		shift := in.VInt()
		s.meta = in.Monotonic(n+1, shift)
	} else {
		s.packed = w.bounds(n)
	}
	s.size = in.I64() - s.off
}

// bounds reads the metadata of a PACKED with the n+1 bounds of n parts. Before Lucene 4.9 the first, 0, is omitted.
func (w *oldWalker) bounds(n int64) *packedSequence {
	version, size := w.in.VInt(), w.in.VInt()
	return w.packed(n+1, version, size, w.gen == gen45)
}

// packed returns a PACKED of n values; ends states that the first, 0, is omitted.
func (w *oldWalker) packed(n int64, version, size int32, ends bool) *packedSequence {
	if w.in.Err() != nil || version < 0 || version > 2 || n < 0 || size < 64 || size > maxOldBlock || bits.OnesCount32(uint32(size)) != 1 {
		w.in.Fail("%d values in packed blocks of %d, version %d", n, size, version)
		return &packedSequence{}
	}
	return &packedSequence{n: n, version: version, shift: int32(bits.TrailingZeros32(uint32(size))), ends: ends}
}

// binary reads a BIN of a binary column.
func (w *oldWalker) binary(e *Entry) {
	t := &oldTerms{}
	e.old.missing = w.bytes(t)
	e.Values, e.Docs, e.blobs = t.n, t.n, &t.blobs
	if t.prefixes {
		w.in.Fail("binary values with shared prefixes")
	}
}

// terms reads the part that holds the terms of a sorted column.
func (w *oldWalker) terms(e *Entry) {
	w.part(Binary)
	e.old.terms = &oldTerms{}
	w.bytes(e.old.terms)
}

func (w *oldWalker) bytes(t *oldTerms) (missing int64) {
	in := w.in
	form := in.VInt()
	missing = in.I64()
	t.shortest, t.longest = in.VInt(), in.VInt()
	t.n, t.off = in.VLong(), in.I64()
	if in.Err() == nil && (t.n < 0 || form < 0 || form > 2) {
		in.Fail("%d binary values of form %d", t.n, form)
	}
	t.block = oldBlock
	if form == 0 {
		if t.longest > 0 && t.n > maxFile/int64(t.longest) {
			in.Fail("%d values of %d bytes", t.n, t.longest)
		}
		t.size = t.n * int64(max(t.longest, 0))
		return missing
	}
	if form == 2 && w.gen < gen410 {
		if t.block, t.chained = int64(in.VInt()), true; in.Err() == nil && (t.block < 1 || t.block > maxChained) {
			in.Fail("terms in blocks of %d", t.block)
		}
	}
	at := in.I64()
	t.size = at - t.off
	s := &sequence{off: at, size: maxFile}
	t.addresses = s
	switch {
	case in.Err() != nil:
	case form == 2:
		t.prefixes = true
		version, size := in.VInt(), in.VInt()
		s.packed = w.packed((t.n+t.block-1)/t.block, version, size, false)
		if !t.chained {
			in.I64()
		}
	case w.gen >= 54:
		shift := in.VInt()
		s.meta = in.Monotonic(t.n+1, shift)
		s.size = in.I64() - at
	default:
		s.packed = w.bounds(t.n)
	}
	return missing
}

// WithoutID reports whether the files of a codec lack the id of their segment, as in Lucene 4.
func WithoutID(name string) bool {
	return strings.HasPrefix(name, "Lucene4") || strings.HasPrefix(name, "Disk")
}

// footed reports whether a .dvm file ends with a footer.
func (w *walker) footed() bool { return w.gen != gen45 || w.version >= footed45 }

// blocked reads the rest of a NUM of Lucene 4.5.
func (w *oldWalker) blocked(e *Entry, form int32) {
	in, n := w.in, &e.numbers
	version := in.VInt()
	n.off, n.size, n.factor = in.I64(), maxFile, 1
	n.values = in.VLong()
	e.Values, e.Docs = n.values, n.values
	size := in.VInt()
	if in.Err() == nil && size < leastBlock45 {
		in.Fail("blocks of %d values", size)
	}
	switch form {
	case 0, 1:
		n.form, n.blocks = formOldBlocks, w.packed(n.values, version, size, false)
		if form == 1 {
			n.min, n.factor = in.I64(), in.I64()
		}
	case 2:
		n.form, n.table = formPacked, make([]int64, w.most(in.VInt()))
		for i := range n.table {
			n.table[i] = in.I64()
		}
		n.bits = uint8(max(1, bits.Len(uint(max(len(n.table)-1, 0)))))
		if in.Err() == nil && n.values < 0 {
			in.Fail("%d values", n.values)
		}
	default:
		in.Fail("numbers of form %d", form)
	}
}

// ends reads a NUM of Lucene 4.5 with the end of the values of each document.
func (w *oldWalker) ends(e *Entry) {
	in := w.in
	if form := in.VInt(); in.Err() == nil && form != 0 {
		in.Fail("lists of form %d", form)
	}
	in.I64()
	version := in.VInt()
	s := &sequence{off: in.I64(), size: maxFile}
	e.Docs = in.VLong()
	s.packed = w.packed(e.Docs+1, version, in.VInt(), true)
	e.addresses = s
}
