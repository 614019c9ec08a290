package columns

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// wellBehaved fails when an error has no category, or when a small input took much memory or time.
func wellBehaved(t *testing.T, input int, parse func() error) {
	t.Helper()
	end := fuzzing.Bounded(t, input)
	err := parse()
	end()
	if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
		t.Fatalf("error without a category: %v", err)
	}
}

func FuzzDocSet(f *testing.F) {
	f.Add(writeSet(false, -1, []int32{1, 2, 70000, 200000}), false, int8(-1), int32(300000))
	f.Add(writeSet(true, 9, denseDocs(10000)), true, int8(9), int32(300000))
	f.Fuzz(func(t *testing.T, b []byte, le bool, rank int8, maxDoc int32) {
		if maxDoc > 1<<22 || maxDoc < 0 {
			t.Skip("four bytes can state 65536 documents: the time goes with the documents of the segment, not with the bytes")
		}
		wellBehaved(t, len(b), func() error {
			last := int32(-1)
			return eachDoc(t, b, le, rank, maxDoc, -1, func(d int32) {
				if d <= last || d >= maxDoc {
					t.Fatalf("document %d after %d of %d", d, last, maxDoc)
				}
				last = d
			})
		})
	})
}

// eachDoc reads a set whole and calls yield for each of its documents. docs is how many it states to have, -1: unknown.
func eachDoc(t *testing.T, b []byte, le bool, rank int8, maxDoc int32, docs int64, yield func(int32)) error {
	t.Helper()
	e := &Entry{le: le, Docs: docs, set: docSet{size: int64(len(b)), rankPower: rank}}
	set, err := e.NewDocs(memData(b), maxDoc)
	words := make([]uint64, 1000) // blocks are cut
	for from := int64(0); from < int64(maxDoc) && err == nil; from += 64000 {
		if err = set.Fill(t.Context(), int32(from), words); err != nil {
			break
		}
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				yield(int32(from) + int32(i)<<6 + int32(bits.TrailingZeros64(w)))
			}
		}
	}
	return err
}

// writeSet writes a set of documents as doc values hold it.
func writeSet(le bool, rank int, docs []int32) []byte {
	order := binary.AppendByteOrder(binary.BigEndian)
	if le {
		order = binary.LittleEndian
	}
	var out []byte
	i16 := func(v int32) { out = order.AppendUint16(out, uint16(v)) }
	for len(docs) > 0 {
		block, n := docs[0]>>16, 0
		for n < len(docs) && docs[n]>>16 == block {
			n++
		}
		i16(block)
		i16(int32(n - 1))
		switch {
		case n <= 4095:
			for _, d := range docs[:n] {
				i16(d & 0xFFFF)
			}
		case n < 65536:
			if rank >= 0 {
				out = append(out, make([]byte, 1024>>(rank-7))...)
			}
			words := make([]uint64, 1024)
			for _, d := range docs[:n] {
				words[d&0xFFFF>>6] |= 1 << (d & 63)
			}
			for _, w := range words {
				out = order.AppendUint64(out, w)
			}
		}
		docs = docs[n:]
	}
	i16(0x7FFF)
	i16(0)
	i16(-1)
	return out
}

func denseDocs(n int32) []int32 {
	var out []int32
	for d := range n {
		if d%3 != 1 {
			out = append(out, d)
		}
	}
	return out
}

func TestSetsOfDocumentsAreReadInEveryKindOfBlock(t *testing.T) {
	full := make([]int32, 65536)
	for i := range full {
		full[i] = 65536 + int32(i)
	}
	for name, docs := range map[string][]int32{
		"none": {}, "sparse": {0, 5, 65535, 65536, 300000}, "dense": denseDocs(65536),
		"all": full, "mixed": slices.Concat([]int32{7}, full, []int32{131072, 131080}),
	} {
		for _, le := range []bool{false, true} {
			for _, rank := range []int{-1, 9} {
				var got []int32
				err := eachDoc(t, writeSet(le, rank, docs), le, int8(rank), 400000, int64(len(docs)), func(d int32) { got = append(got, d) })
				if err != nil || !slices.Equal(got, docs) {
					t.Errorf("%s le=%v rank %d: %d of %d documents, %v", name, le, rank, len(got), len(docs), err)
				}
			}
		}
	}
}
