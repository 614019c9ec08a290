package lucene

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// maxChunkDocs bounds the documents of a chunk; writers stop at 4096.
const maxChunkDocs = 1 << 16

// maxSlice bounds the raw length of a slice; writers use at most 600 KiB.
const maxSlice = 1 << 30

/*
The head of a chunk in .fdt:

	VInt docBase | VInt token
	  g41: documents = token; sliced when the raw length is >= 2*chunkSize (v0: never)
	  g50 v0..v3: documents = token>>1, sliced = token&1
	  g50 v4, g90: documents = token>>2, sliced = token&1
	one document: VInt number of fields, VInt length; else two arrays of integers
	compressed bytes of the documents in sequence

A sliced chunk is cut every chunkSize raw bytes, and each slice is compressed on its own.
*/
type chunk struct {
	first   int32   // first document
	fields  []int32 // numbers of fields; 0 in Lucene 4.0, where each document starts with it
	lengths []int32
	total   int64 // sum of lengths
	sliced  bool
	needed  []span // raw bytes that are needed, in order; nil: all
}

// span is a range [from, to) of the raw bytes of a chunk.
type span struct{ from, to int64 }

// need returns which bytes of a unit are needed that starts at a raw byte of the chunk.
func (c *chunk) need(start int64) needed {
	if c.needed == nil {
		return nil
	}
	return func(from, to int) bool {
		return slices.ContainsFunc(c.needed, func(x span) bool { return x.from < start+int64(to) && start+int64(from) < x.to })
	}
}

func (c *chunk) reset(first, docs int32) {
	if int(docs) > cap(c.lengths) {
		c.fields = make([]int32, docs)
		c.lengths = make([]int32, docs)
	}
	c.first, c.fields, c.lengths = first, c.fields[:docs], c.lengths[:docs]
	c.total, c.sliced, c.needed = 0, false, nil
	clear(c.fields)
}

// headLen returns the maximum length of the head of a chunk.
func (s *storedFields) headLen(at place) int64 {
	if s.format.compression == nil {
		return at.stop - at.start
	}
	return min(at.stop-at.start, 64+8*int64(at.end-at.first))
}

// intsReader reads n integers of 0..2^31-1 from a chunk head.
type intsReader func(in *codec.Input, dst []int32, s *storedFields)

// readHead parses a chunk head; shift is the number of bits of the token below the number of documents.
func readHead(p []byte, at place, s *storedFields, c *chunk, shift int, ints intsReader) (int, error) {
	in := codec.NewInput(p)
	in.SetLittleEndian(s.le)
	first, token := in.VInt(), in.VInt()
	docs := int32(uint32(token) >> shift)
	want := at.end - at.first
	switch {
	case in.Err() != nil:
		return 0, in.Err()
	case first != at.first || docs != want:
		return 0, codec.Errorf(0, "chunk of %d documents from %d on where the index has %d from %d on", docs, first, want, at.first)
	case docs > maxChunkDocs:
		return 0, codec.Errorf(0, "chunk of %d documents", docs)
	}
	c.reset(first, docs)
	if docs == 1 {
		c.fields[0], c.lengths[0] = in.VInt(), in.VInt()
	} else {
		ints(in, c.fields, s)
		ints(in, c.lengths, s)
	}
	for i, n := range c.lengths {
		if n < 0 || c.fields[i] < 0 || n == 0 && c.fields[i] != 0 || c.fields[i] > n {
			in.Fail("document %d of %d fields in %d bytes", first+int32(i), c.fields[i], n)
			break
		}
		c.total += int64(n)
	}
	if shift > 0 {
		c.sliced = token&1 != 0
	}
	return in.Pos(), in.Err()
}

// readPackedInts reads VInt bits and packed integers; bits 0 is one VInt for all.
func readPackedInts(in *codec.Input, dst []int32, s *storedFields) {
	bits := in.VInt()
	switch {
	case bits == 0:
		repeatInt(in, dst)
	case bits < 0 || bits > 31:
		in.Fail("packed integers of %d bits", bits)
	default:
		p := in.Take(int(codec.PackedLen(len(dst), int(bits), s.packedVersion)))
		if p != nil {
			codec.Unpack32(dst, p, int(bits))
		}
	}
}

func repeatInt(in *codec.Input, dst []int32) {
	v := in.VInt()
	for i := range dst {
		dst[i] = v
	}
}

// readStoredInts reads the integers of Lucene 9: i8 width, then for 8, 16 or 32 bits blocks
// of 128 values as little-endian longs (of R longs with L lanes, long r carries the values
// r, r+R, r+2R… from its most significant lane on), then the rest as little-endian values;
// width 0 is one VInt for all.
func readStoredInts(in *codec.Input, dst []int32, _ *storedFields) {
	width := int(in.U8())
	switch width {
	case 0:
		repeatInt(in, dst)
		return
	case 8, 16, 32:
	default:
		in.Fail("integers of %d bits", width)
		return
	}
	lanes := 64 / width
	rows := 128 / lanes
	mask := uint64(1)<<width - 1
	for len(dst) >= 128 {
		p := in.Take(8 * rows)
		if p == nil {
			return
		}
		for r := range rows {
			v := binary.LittleEndian.Uint64(p[8*r:])
			for lane := lanes - 1; lane >= 0; lane-- {
				dst[lane*rows+r] = int32(v & mask)
				v >>= width
			}
		}
		dst = dst[128:]
	}
	p := in.Take(len(dst) * width / 8)
	if p == nil {
		return
	}
	for i := range dst {
		switch width {
		case 8:
			dst[i] = int32(p[i])
		case 16:
			dst[i] = int32(binary.LittleEndian.Uint16(p[2*i:]))
		default:
			dst[i] = int32(binary.LittleEndian.Uint32(p[4*i:]))
		}
	}
}

// g41 is the layout of Lucene 4.1–4.10: big-endian, plain headers, .fdt continues with VInt
// chunkSize (v1, v2) and VInt packed version; the index is the old one; v2 has a footer.
type g41 struct{}

func (g41) open(ctx context.Context, s *storedFields, in *codec.Input) error {
	if s.version >= 1 {
		s.chunkSize = int64(in.VInt())
	}
	s.packedVersion = in.VInt()
	if err := s.checkSizes(in, s.fdt); err != nil {
		return err
	}
	return s.readLegacyIndex(ctx, true, s.version >= 2)
}

func (g41) header(p []byte, at place, s *storedFields, c *chunk) (int, error) {
	n, err := readHead(p, at, s, c, 0, readPackedInts)
	c.sliced = s.version >= 1 && c.total >= 2*s.chunkSize
	return n, err
}

func (g41) parse(doc []byte, fields int32, t fieldTable, rec *Record) error {
	return parseBody(doc, fields, t, rec, true)
}

// g50 is the layout of Lucene 5.0–8.11: big-endian, index headers. v0..v2 have chunkSize
// and packed version in .fdt, v3 and v4 in .fdm; v0 and v1 have the old index, the others
// the modern one; v1 and v2 have VLong chunks and VLong dirty chunks before the footer.
type g50 struct{}

func (g50) open(ctx context.Context, s *storedFields, in *codec.Input) error {
	from, src := in, s.fdt
	var meta *source
	var metaIn *codec.Input
	if s.version >= 2 {
		var err error
		if meta, metaIn, err = s.openMeta(ctx); err != nil {
			return err
		}
	}
	if s.version >= 3 {
		from, src = metaIn, meta
	}
	s.chunkSize = int64(from.VInt())
	s.packedVersion = from.VInt()
	if err := s.checkSizes(from, src); err != nil {
		return err
	}
	if s.version >= 2 {
		return s.readModernIndex(ctx, meta, metaIn)
	}
	return s.readLegacyIndex(ctx, false, true)
}

func (g50) header(p []byte, at place, s *storedFields, c *chunk) (int, error) {
	shift := 1
	if s.version >= 4 {
		shift = 2
	}
	return readHead(p, at, s, c, shift, readPackedInts)
}

func (g50) parse(doc []byte, fields int32, t fieldTable, rec *Record) error {
	return parseBody(doc, fields, t, rec, false)
}

// g90 is the layout of Lucene 9 and later: little-endian, chunkSize in .fdm, modern index.
type g90 struct{}

func (g90) open(ctx context.Context, s *storedFields, _ *codec.Input) error {
	meta, in, err := s.openMeta(ctx)
	if err != nil {
		return err
	}
	s.chunkSize = int64(in.VInt())
	if err := s.checkSizes(in, meta); err != nil {
		return err
	}
	return s.readModernIndex(ctx, meta, in)
}

func (g90) header(p []byte, at place, s *storedFields, c *chunk) (int, error) {
	return readHead(p, at, s, c, 2, readStoredInts)
}

func (g90) parse(doc []byte, fields int32, t fieldTable, rec *Record) error {
	return parseBody(doc, fields, t, rec, false)
}

func (s *storedFields) checkSizes(in *codec.Input, src *source) error {
	if s.packedVersion < 0 || s.packedVersion > 2 {
		in.Fail("packed integers of version %d", s.packedVersion)
	}
	if s.chunkSize < 0 || s.chunkSize > maxSlice {
		in.Fail("chunks of %d bytes", s.chunkSize)
	}
	return src.wrap(in.Err())
}

// head parses the head of a chunk, whose bytes are read from w, and returns its length.
func (s *storedFields) head(ctx context.Context, w *window, at place, c *chunk) (int64, error) {
	p, err := w.at(ctx, at.start, s.headLen(at))
	if err != nil {
		return 0, err
	}
	n, err := s.format.layout.header(p, at, s, c)
	if err != nil {
		return 0, s.fdt.wrapAt(err, at.start)
	}
	return int64(n), nil
}

// unpackChunk appends the raw bytes of chunk k to raw; bytes that are not needed may have any content. Its compressed bytes are [pos, end)
// of .fdt.
func (s *storedFields) unpackChunk(ctx context.Context, w *window, unpack compression, k int, c *chunk, raw []byte, pos, end int64) ([]byte, error) {
	total := c.total
	if total == 0 {
		return raw, nil // the few bytes that writers leave here have no meaning
	}
	if unpack == nil {
		p, err := w.at(ctx, pos, end-pos)
		return append(raw, p...), err
	}
	slice := total
	if c.sliced {
		if slice = min(s.chunkSize, total); slice < 1 {
			return raw, codec.Errorf(pos, "sliced chunk with slices of %d bytes", slice)
		}
	}
	for left := total; left > 0; left -= slice {
		slice = min(slice, left)
		size := end - pos
		if c.sliced {
			size = min(size, unitBound(slice))
		}
		p, err := w.at(ctx, pos, size)
		if err != nil {
			return raw, err
		}
		var took int
		if raw, took, err = unpack.unit(raw, p, int(min(slice, maxPlainUnit+1)), c.need(total-left), !c.sliced); err != nil {
			return raw, err
		}
		pos += int64(took)
		if c.sliced {
			w.advance(pos)
		}
	}
	if pos != end {
		return raw, codec.Errorf(pos, "chunk %d ends at %d, the index states %d", k, pos, end)
	}
	return raw, nil
}
