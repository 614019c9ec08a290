package lucene

import (
	"context"
	"math"

	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// minChunkLen is the least a chunk occupies: two VInts of head and one byte.
const minChunkLen = 3

// maxChunks bounds the number of chunks by the bytes they lie in.
func (s *storedFields) maxChunks() int64 { return s.fdt.size/minChunkLen + 1 }

/*
The index of Lucene 8.4 and before, .fdx alone; header (plain Lucene41StoredFieldsIndex, or
index header Lucene50StoredFields{Fast,High}Index), then

	VInt packed version
	VInt n chunks of a block, 0 ends | VInt docBase | VInt avgDocs | VInt bits, n packed |
	VLong start | VLong avgSize | VInt bits, n packed          (bits 0: no bytes)
	g41 v2 and g50: VLong maxPointer, footer

	first document of chunk k = docBase + avgDocs*k + zigzag(packed k), its pointer likewise
*/
func (s *storedFields) readLegacyIndex(ctx context.Context, plain, hasMax bool) error {
	fdx, err := s.segment.files.core(".fdx")
	if err != nil {
		return err
	}
	b, err := fdx.readAll(ctx)
	if err != nil {
		return err
	}
	in := codec.NewInput(b)
	in.Header()
	if !plain {
		checkID(in, s.segment.id)
		in.Take(int(in.U8()))
	}
	version := in.VInt()
	if version < 0 || version > 2 {
		in.Fail("packed integers of version %d", version)
	}
	for in.Err() == nil {
		n := in.VInt()
		if n == 0 {
			break
		}
		s.readIndexBlock(in, n, version)
	}
	s.maxPointer = s.fdt.size
	if hasMax {
		s.maxPointer = in.VLong()
	}
	s.index.docs = append(s.index.docs, int32(s.segment.MaxDoc))
	s.index.pointers = append(s.index.pointers, s.maxPointer)
	return fdx.wrap(in.Err())
}

func (s *storedFields) readIndexBlock(in *codec.Input, n, version int32) {
	if n < 0 || int64(len(s.index.docs))+int64(n) > s.maxChunks() {
		in.Fail("block of %d chunks", n)
		return
	}
	base, avg := int64(in.VInt()), int64(in.VInt())
	delta := packedBlock(in, n, version)
	for k := range int64(n) {
		d := base + avg*k + codec.ZigZag64(int64(delta(k)))
		if d < 0 || d > math.MaxInt32 {
			in.Fail("chunk begins with document %d", d)
			return
		}
		s.index.docs = append(s.index.docs, int32(d))
	}
	start, size := in.VLong(), in.VLong()
	delta = packedBlock(in, n, version)
	for k := range int64(n) {
		s.index.pointers = append(s.index.pointers, start+size*k+codec.ZigZag64(int64(delta(k))))
	}
}

func packedBlock(in *codec.Input, n, version int32) func(k int64) uint64 {
	bits := in.VInt()
	if bits < 0 || bits > 64 {
		in.Fail("packed integers of %d bits", bits)
		return func(int64) uint64 { return 0 }
	}
	p := in.Take(int(codec.PackedLen(int(n), int(bits), version)))
	if p == nil {
		return func(int64) uint64 { return 0 }
	}
	return func(k int64) uint64 { return codec.PackedAt(p, int(bits), k) }
}

/*
The index of Lucene 8.5 and later: .fdm with index header Lucene85FieldsIndexMeta
(big-endian) or Lucene90FieldsIndexMeta (little-endian), then

	g50 v3, v4: VInt chunkSize, VInt packed version; g90: VInt chunkSize; g50 v2: nothing
	i32 maxDoc | i32 block shift | i32 entries = chunks + 1
	i64 start in .fdx, MONO(entries) first documents, the last entry is maxDoc
	i64 start in .fdx, MONO(entries) pointers into .fdt, the last entry is maxPointer
	i64 end in .fdx | i64 maxPointer
	g50 v4, g90: VLong chunks; g50 v3, v4 and g90: VLong dirty chunks, VLong dirty documents
	footer

and .fdx with the deltas of the two sequences.
*/
func (s *storedFields) readModernIndex(ctx context.Context, meta *source, in *codec.Input) error {
	maxDoc, shift, n := in.I32(), in.I32(), in.I32()
	if int64(maxDoc) != int64(s.segment.MaxDoc) {
		in.Fail("%d documents in a segment of %d", maxDoc, s.segment.MaxDoc)
	}
	if n < 2 || int64(n) > s.maxChunks()+1 || int64(n) > int64(maxDoc)+1 {
		in.Fail("%d entries of the index for %d documents", n, maxDoc)
	}
	docsAt := in.I64()
	docs := in.Monotonic(int64(n), shift)
	pointersAt := in.I64()
	pointers := in.Monotonic(int64(n), shift)
	in.I64()
	s.maxPointer = in.I64()
	if in.Err() != nil {
		return meta.wrap(in.Err())
	}
	fdx, err := s.segment.files.core(".fdx")
	if err != nil {
		return err
	}
	b, err := fdx.readAll(ctx)
	if err != nil {
		return err
	}
	x := codec.NewInput(b)
	x.Header()
	checkID(x, s.segment.id)
	if x.Err() != nil {
		return fdx.wrap(x.Err())
	}
	s.index.docs = make([]int32, n)
	err = docs.Each(b, docsAt, s.le, func(i, v int64) error {
		if v < 0 || v > int64(maxDoc) {
			return codec.Errorf(docsAt, "chunk %d begins with document %d of %d", i, v, maxDoc)
		}
		s.index.docs[i] = int32(v)
		return nil
	})
	if err != nil {
		return fdx.wrap(err)
	}
	s.index.pointers = make([]int64, n)
	return fdx.wrap(pointers.Each(b, pointersAt, s.le, func(i, v int64) error {
		s.index.pointers[i] = v
		return nil
	}))
}

// openMeta reads .fdm up to the end of its header.
func (s *storedFields) openMeta(ctx context.Context) (*source, *codec.Input, error) {
	fdm, err := s.segment.files.core(".fdm")
	if err != nil {
		return nil, nil, err
	}
	b, err := fdm.readAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	in := codec.NewInput(b)
	in.Header()
	checkID(in, s.segment.id)
	in.Take(int(in.U8()))
	return fdm, in, nil
}
