package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

/*
.dvm of Elasticsearch's formats, little-endian. From v2 on the fields are preceded by u8
block shift (else 7): values lie in blocks of 2^shift.

	NUM      i64 values, i32 docs, [values > 0: i32 index shift s:
	           -1: the only ordinal is 0
	           -2: VInt n, i8 shift, MONO(n+1): ordinal k starts at document k of the sequence
	           else [95, not ordinals: PIPE], MONO(ceil(values/block size)): offsets of the blocks
	         i64 index off, i64 len, i64 values off, i64 len], SET with jumps and rank power
	PIPE     VInt 1, VInt n, u8 block shift, u8 type (0 long 1 double), n of u8 stage

	numeric         NUM
	sorted-numeric  NUM, [docs != values: ADDR(docs+1)]
	binary          [v1: u8 compression], i64 off, i64 len, SET, i32 docs, i32 min, i32 max,
	                not compressed: [min<max: ADDR(docs+1)]
	                compressed and docs>0: i64 off, VInt chunks, VInt longest, VInt most values, VInt shift,
	                MONO(chunks+1), i64 len, i64 off, MONO(chunks+1), i64 len
	sorted          NUM, TERMS; from v4 on TERMS, NUM, then for the field that sorts the segment
	                u8 1, u8 bits, i64 off, VLong len; or another u8
	sorted-set      u8 multi; 0: sorted; 1: sorted-numeric of ordinals, TERMS

TERMS are as in Lucene90. From v5 on the skip index has a file of its own.

ES87TSDB has no block shift, no compression and no ranges, and orders fields differently: NUM is SET, i64 values, [values > 0: i32
index shift s (-1: the only ordinal is 0; else MONO), …]; sorted-numeric and sorted-set have i32 docs after NUM. Its v1 has
the skip index of v7.
*/
type tsdbWalker struct {
	*walker
	pipelines bool
	old       bool // ES87TSDB
	grouped   bool // the first form of offsets in compressed binary values
	shift     int32
}

// tsdbVersions returns the released versions of a codec of .dvm; nil for others.
func tsdbVersions(name string) []int32 {
	switch name {
	case es87Metadata:
		return []int32{0, 1}
	case "ES819TSDBDocValuesMetadata":
		return []int32{0, 1, 2, 3, 4, 5, 8}
	case "ES95TSDBDocValuesMetadata":
		return []int32{8}
	}
	return nil
}

const es87Metadata = "ES87TSDBDocValuesMetadata"

func newTSDBWalker(w *walker, name, suffix string) (*tsdbWalker, error) {
	if !slices.Contains(tsdbVersions(name), w.version) {
		return nil, fmt.Errorf("doc values of codec %q version %d are unknown: %w", name, w.version, fault.ErrUnsupported)
	}
	t := &tsdbWalker{walker: w, pipelines: name == "ES95TSDBDocValuesMetadata", old: name == es87Metadata, shift: 7}
	t.grouped = strings.Contains(suffix, "ES819TSDB_") // ES8193TSDB has the same codecs
	if w.version >= 2 {
		t.shift = int32(w.in.U8())
	}
	t.check(t.shift)
	return t, nil
}

// check checks the block size; blocks consist of parts of 128 values.
func (w *tsdbWalker) check(shift int32) {
	if shift < 7 || shift > maxTSDBShift {
		w.in.Fail("values in blocks of 2^%d", shift)
	}
}

func (w *tsdbWalker) body(f Field, e *Entry) {
	e.Kind = w.kind(f, true, w.version >= 7 || w.old && w.version >= 1)
	switch e.Kind {
	case Numeric:
		w.numeric(e, false)
	case Binary:
		w.binary(e)
	case Sorted:
		w.sorted(f, e)
	case SortedSet:
		if w.in.U8() == 0 {
			w.sorted(f, e)
			return
		}
		w.numeric(e, true)
		w.several(e)
		w.terms(e)
	case SortedNumeric:
		w.numeric(e, false)
		w.several(e)
	}
}

// several reads the start of the values of each document, if a document has several.
func (w *tsdbWalker) several(e *Entry) {
	if w.old {
		e.Docs = int64(w.in.I32())
	}
	if e.Docs != e.Values {
		e.addresses = w.sequence(e.Docs + 1)
	}
}

func (w *tsdbWalker) numeric(e *Entry, ordinals bool) {
	in, n := w.in, &e.numbers
	if w.old {
		e.set = w.set()
		e.Values = in.I64()
		e.Docs = e.Values
	} else {
		e.Values, e.Docs = in.I64(), int64(in.I32())
	}
	n.form, n.values, n.shift, n.ordinals = formTSDB, e.Values, w.shift, ordinals
	if e.Values > 0 {
		switch shift := in.I32(); {
		case shift == -1:
			n.form = formSingle
		case shift == -2 && !w.old:
			n.form = formRanges
			count := int64(in.VInt())
			n.ranges = &sequence{le: true}
			n.ranges.meta = in.Monotonic(count+1, int32(in.U8()))
		default:
			if w.pipelines && !ordinals {
				e.err = w.pipeline(n)
			}
			n.index = &sequence{meta: in.Monotonic(blocks(in, e.Values, n.shift), shift), le: true}
		}
		indexOff, indexSize := in.I64(), in.I64()
		n.off, n.size = in.I64(), in.I64()
		if n.index != nil {
			n.index.off, n.index.size = indexOff, indexSize
		}
		if n.ranges != nil {
			n.ranges.off, n.ranges.size = n.off, n.size
		}
	}
	if !w.old {
		e.set = w.set()
	}
}

// pipeline reads how the blocks of a column are encoded.
func (w *tsdbWalker) pipeline(n *numbers) error {
	in := w.in
	version := in.VInt()
	count := in.Count(1)
	n.shift = int32(in.U8())
	in.U8()
	w.check(n.shift)
	n.stages = slices.Clone(in.Take(count))
	if in.Err() == nil && (version != 1 || count < 1 || count > 16) {
		in.Fail("pipeline of version %d with %d stages", version, count)
	}
	for i, s := range n.stages {
		last := i == count-1
		if last != (s == stageBits) || !last && (s < stageDelta || s > stageDecimal) {
			return fmt.Errorf("values encoded by stage %d of a pipeline are unknown: %w", s, fault.ErrUnsupported)
		}
	}
	return nil
}

func (w *tsdbWalker) sorted(f Field, e *Entry) {
	if w.version < 4 {
		w.numeric(e, true)
		w.terms(e)
		return
	}
	w.terms(e)
	w.numeric(e, true)
	if f.Sorts && w.in.U8() == 1 {
		w.in.Take(1 + 8)
		w.in.VLong()
	}
}

func (w *tsdbWalker) binary(e *Entry) {
	in := w.in
	compression := uint8(0)
	if w.version >= 1 && !w.old {
		compression = in.U8()
	}
	b := &blobs{off: in.I64(), size: in.I64()}
	e.blobs, e.set = b, w.set()
	e.Docs = int64(in.I32())
	e.Values = e.Docs
	b.shortest, b.longest = in.I32(), in.I32()
	if compression == 0 {
		if b.shortest < b.longest {
			b.addresses = w.sequence(e.Docs + 1)
		}
		return
	}
	if compression != zstdCompression {
		e.err = fmt.Errorf("binary values of compression %d are unknown: %w", compression, fault.ErrUnsupported)
	}
	if e.Docs > 0 {
		w.chunks(b)
	}
}

const zstdCompression = 1

// chunks reads the location of the compressed chunks of binary values.
func (w *tsdbWalker) chunks(b *blobs) {
	in := w.in
	addresses, first := &sequence{off: in.I64(), le: true}, &sequence{le: true}
	n := int64(in.VInt()) + 1
	b.chunks = &chunks{addresses: addresses, first: first, longest: in.VInt(), most: in.VInt(), grouped: w.grouped}
	shift := in.VInt()
	addresses.meta = in.Monotonic(n, shift)
	addresses.size = in.I64()
	first.off = in.I64()
	first.meta = in.Monotonic(n, shift)
	first.size = in.I64()
	if in.Err() == nil && n < 2 {
		in.Fail("%d chunks of values", n-1)
	}
}

// blockBound returns the maximum length of a block of 2^shift values: 8 bytes each, and the data of the stages of a pipeline.
func blockBound(shift int32) int64 { return 8<<shift + 16<<10 }

// tsdbStages: stage numbers of a pipeline. The last stage packs bits.
const (
	stageDelta      = 1
	stageOffset     = 2
	stageFactor     = 3
	stageSplitDelta = 4
	stageDecimal    = 5
	stageBits       = 0xA1
)

const maxTSDBShift = 14
