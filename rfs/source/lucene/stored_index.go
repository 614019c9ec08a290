package lucene

import (
	"context"
	"fmt"
	"sort"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// minChunkLen is the minimum length of a chunk: two VInts of head and one byte.
const minChunkLen = 3

// maxChunks returns the maximum number of chunks that .fdt can hold.
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
	if err := fdx.check(ctx); err != nil {
		return err
	}
	t := &legacyIndex{pages: pages{src: fdx}}
	head, err := t.at(ctx, 0, min(fdx.size, codec.MaxHeaderLen))
	if err != nil {
		return err
	}
	in := codec.NewInput(head)
	in.Header()
	if !plain {
		checkID(in, s.segment.id)
		in.Take(int(in.U8()))
	}
	if t.version = in.VInt(); t.version < 0 || t.version > 2 {
		in.Fail("packed integers of version %d", t.version)
	}
	if in.Err() != nil {
		return fdx.wrap(in.Err())
	}
	off := int64(in.Pos())
	for more := true; more; {
		if off, more, err = t.readBlock(ctx, off, s.maxChunks()); err != nil {
			return err
		}
	}
	s.maxPointer = s.fdt.size
	if hasMax {
		if in, err = t.input(ctx, off); err != nil {
			return err
		}
		s.maxPointer = in.VLong()
	}
	if in.Err() != nil {
		return fdx.wrapAt(in.Err(), off)
	}
	t.maxDoc, t.maxPointer = int64(s.segment.MaxDoc), s.maxPointer
	s.index.entries, s.index.table = t.chunks+1, t
	return nil
}

// legacyIndex is the index of Lucene 8.4 and before. It holds the offsets of the blocks, not their numbers.
type legacyIndex struct {
	pages
	version            int32
	chunks             int64
	blocks             []legacyBlock
	maxDoc, maxPointer int64 // the entry after the last chunk
}

// legacyBlock describes a block of chunks, usually 1,024.
type legacyBlock struct {
	first          int64 // its first chunk
	docs, pointers packedLine
}

// packedLine describes numbers near a line: base + avg*k, plus a packed difference.
type packedLine struct {
	base, avg, off int64
	bits           int
}

const (
	// maxLegacyBlocks bounds the blocks of an index. With 1,024 chunks each they cover 4 TB of documents.
	maxLegacyBlocks = 1 << 18
	maxBlockChunks  = 1 << 16
	// legacyHead is the maximum length of what precedes packed numbers, in bytes.
	legacyHead = 5 + 2*10 + 5
)

// input returns the bytes at off, up to the maximum length of a block's head.
func (t *legacyIndex) input(ctx context.Context, off int64) (*codec.Input, error) {
	p, err := t.at(ctx, off, max(0, min(legacyHead, t.src.size-off)))
	return codec.NewInput(p), err
}

// readBlock reads where the numbers of a block are, and returns the offset of the next block; more is false after the last block.
func (t *legacyIndex) readBlock(ctx context.Context, off, most int64) (next int64, more bool, err error) {
	in, err := t.input(ctx, off)
	if err != nil {
		return 0, false, err
	}
	n := in.VInt()
	if n == 0 && in.Err() == nil {
		return off + int64(in.Pos()), false, nil
	}
	if in.Err() == nil && (n < 0 || n > maxBlockChunks || t.chunks+int64(n) > most) {
		in.Fail("block of %d chunks", n)
	}
	if in.Err() == nil && len(t.blocks) == maxLegacyBlocks {
		return 0, false, fmt.Errorf("%s: more than %d blocks: %w", t.src.name, maxLegacyBlocks, fault.ErrUnsupported)
	}
	b := legacyBlock{first: t.chunks}
	b.docs.base, b.docs.avg = int64(in.VInt()), int64(in.VInt())
	if off, err = t.line(in, off, n, &b.docs); err != nil {
		return 0, false, err
	}
	if in, err = t.input(ctx, off); err != nil {
		return 0, false, err
	}
	b.pointers.base, b.pointers.avg = in.VLong(), in.VLong()
	if off, err = t.line(in, off, n, &b.pointers); err != nil {
		return 0, false, err
	}
	t.chunks += int64(n)
	t.blocks = append(t.blocks, b)
	return off, true, nil
}

// line reads the width of n packed numbers and returns the offset after them.
func (t *legacyIndex) line(in *codec.Input, off int64, n int32, l *packedLine) (int64, error) {
	bits := in.VInt()
	if in.Err() == nil && (bits < 0 || bits > 64) {
		in.Fail("packed integers of %d bits", bits)
	}
	if in.Err() != nil {
		return 0, t.src.wrapAt(in.Err(), off)
	}
	l.bits, l.off = int(bits), off+int64(in.Pos())
	next := l.off + codec.PackedLen(int(n), l.bits, t.version)
	if next > t.src.size {
		return 0, t.src.corrupt(l.off, "%d bytes wanted of a file of %d", next-l.off, t.src.size)
	}
	return next, nil
}

func (t *legacyIndex) number(ctx context.Context, l *packedLine, k int64) (int64, error) {
	skip, n := codec.DirectSpan(l.bits, k)
	v := l.base + l.avg*k
	if n == 0 {
		return v, nil
	}
	p, err := t.at(ctx, l.off+skip, n)
	if err != nil {
		return 0, err
	}
	return v + codec.ZigZag64(int64(codec.DirectIn(p, l.bits, k, false))), nil
}

func (t *legacyIndex) entry(ctx context.Context, k int64) (doc, pointer int64, err error) {
	if k == t.chunks {
		return t.maxDoc, t.maxPointer, nil
	}
	b := &t.blocks[sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].first > k })-1]
	if doc, err = t.number(ctx, &b.docs, k-b.first); err == nil {
		pointer, err = t.number(ctx, &b.pointers, k-b.first)
	}
	return doc, pointer, err
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
	if err := fdx.check(ctx); err != nil {
		return err
	}
	t := &modernIndex{docs: pages{src: fdx}, pointers: pages{src: fdx}, docMeta: docs, pointerMeta: pointers, docsAt: docsAt, pointersAt: pointersAt, le: s.le}
	head, err := t.docs.at(ctx, 0, min(fdx.size, codec.MaxHeaderLen))
	if err != nil {
		return err
	}
	x := codec.NewInput(head)
	x.Header()
	checkID(x, s.segment.id)
	s.index.entries, s.index.table = int64(n), t
	return fdx.wrap(x.Err())
}

// modernIndex is the index of Lucene 8.5 and later. It holds the metadata of both sequences, not their deltas.
type modernIndex struct {
	docs, pointers       pages // of the same file
	docMeta, pointerMeta codec.Monotonic
	docsAt, pointersAt   int64
	le                   bool
}

func (t *modernIndex) entry(ctx context.Context, k int64) (doc, pointer int64, err error) {
	if doc, err = monotonic(ctx, &t.docs, &t.docMeta, t.docsAt, k, t.le); err == nil {
		pointer, err = monotonic(ctx, &t.pointers, &t.pointerMeta, t.pointersAt, k, t.le)
	}
	return doc, pointer, err
}

// monotonic returns value k of a sequence whose data start at base.
func monotonic(ctx context.Context, p *pages, m *codec.Monotonic, base, k int64, le bool) (int64, error) {
	off, n := m.Span(k)
	if off < 0 || base < 0 || base > p.src.size {
		return 0, p.src.corrupt(base, "value %d of a sequence beyond the end", k)
	}
	if n == 0 {
		return m.At(k, nil, le), nil
	}
	span, err := p.at(ctx, base+off, n)
	if err != nil {
		return 0, err
	}
	return m.At(k, span, le), nil
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
