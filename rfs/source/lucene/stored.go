package lucene

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
Stored fields: .fdt holds documents in compressed chunks, .fdx (and .fdm) state where each
chunk starts. The codec name in the header of .fdt determines the format; the codec of the
commit and the mode in .si are redundant.

	codec of .fdt                        layout  compression   written by
	Lucene40StoredFieldsData             g40     none          4.0
	Lucene41StoredFieldsData v0..2       g41     LZ4           4.1–4.10
	Lucene50StoredFieldsFastData v0..2   g50     LZ4           5.0–8.6
	Lucene50StoredFieldsHighData v0..2   g50     DEFLATE       5.0–8.6
	Lucene87StoredFieldsFastData v3,4    g50     LZ4-dict      8.7–8.11
	Lucene87StoredFieldsHighData v3,4    g50     DEFLATE-dict  8.7–8.11
	Lucene90StoredFieldsFastData v1      g90     LZ4-dict      9.0–10.5
	Lucene90StoredFieldsHighData v1      g90     DEFLATE-dict  9.0–10.5
	ZstdStoredFields814 v1               g90     ZSTD          Elasticsearch 8.14 and later
	CustomStoredFieldsZstd v1            g90     ZSTD-dict     OpenSearch zstd
	CustomStoredFieldsZstdNoDict v1      g90     ZSTD-blocks   OpenSearch zstd_no_dict
	QatStoredFields{Lz4,Deflate,Zstd} v1 g90     by magic      OpenSearch qat_*
*/
type storedFormat struct {
	plain       bool  // plain header
	minV, maxV  int32 // versions of the .fdt header
	layout      storedLayout
	compression func() compression // nil: none
}

// storedLayout is the layout of one generation of the files, except for the compressed bytes of chunks.
type storedLayout interface {
	// open reads the data after the .fdt header, where in is positioned, and the index.
	open(ctx context.Context, s *storedFields, in *codec.Input) error
	// header parses the head of a chunk from p, which holds all of it, and returns its length.
	header(p []byte, at place, s *storedFields, c *chunk) (int, error)
	// parse sets the fields of a record from one document.
	parse(doc []byte, fields int32, t fieldTable, rec *Record) error
}

var storedFormats = map[string]storedFormat{
	"Lucene40StoredFieldsData":     {true, 0, 0, g40{}, nil},
	"Lucene41StoredFieldsData":     {true, 0, 2, g41{}, newLZ4},
	"Lucene50StoredFieldsFastData": {false, 0, 2, g50{}, newLZ4},
	"Lucene50StoredFieldsHighData": {false, 0, 2, g50{}, newDeflate},
	"Lucene87StoredFieldsFastData": {false, 3, 4, g50{}, newLZ4Dict},
	"Lucene87StoredFieldsHighData": {false, 3, 4, g50{}, newDeflateDict},
	"Lucene90StoredFieldsFastData": {false, 1, 1, g90{}, newLZ4Dict},
	"Lucene90StoredFieldsHighData": {false, 1, 1, g90{}, newDeflateDict},
	"ZstdStoredFields814":          {false, 1, 1, g90{}, newZstd},
	"CustomStoredFieldsZstd":       {false, 1, 1, g90{}, newZstdDict},
	"CustomStoredFieldsZstdNoDict": {false, 1, 1, g90{}, newZstdBlocks},
	"QatStoredFieldsLz4":           {false, 1, 1, g90{}, newQAT},
	"QatStoredFieldsDeflate":       {false, 1, 1, g90{}, newQAT},
	"QatStoredFieldsZstd":          {false, 1, 1, g90{}, newQAT},
}

// storedFields are the stored fields of one segment, open for reading.
type storedFields struct {
	segment *Segment
	fdt     *source
	codec   string
	version int32
	le      bool
	format  storedFormat

	chunkSize     int64 // raw length of a slice of a sliced chunk
	packedVersion int32
	maxPointer    int64 // where the chunks end
	index         chunkIndex
	series        *series // nil: ids are stored fields
	fields        fieldTable
	infos         *fieldInfos // nil unless wanted
}

// fdtPreamble is enough for the header of .fdt and the two VInts after it.
const fdtPreamble = codec.MaxHeaderLen + 10

// parseStoredHeader parses the preamble of .fdt and chooses the format.
func parseStoredHeader(p []byte, fdt *source, id string) (*storedFields, *codec.Input, error) {
	in := codec.NewInput(p)
	h := in.Header()
	if in.Err() != nil {
		return nil, nil, fdt.wrap(in.Err())
	}
	f, ok := storedFormats[h.Codec]
	if !ok {
		return nil, nil, fmt.Errorf("%s: stored fields of codec %q are unknown; reindex or merge the index with a standard codec and snapshot it again: %w", fdt.name, h.Codec, fault.ErrUnsupported)
	}
	if h.Version < f.minV || h.Version > f.maxV {
		return nil, nil, fmt.Errorf("%s: stored fields of codec %s version %d are unknown: %w", fdt.name, h.Codec, h.Version, fault.ErrUnsupported)
	}
	if !f.plain {
		checkID(in, id)
		in.Take(int(in.U8()))
	}
	s := &storedFields{fdt: fdt, codec: h.Codec, version: h.Version, le: codec.LittleEndian(h.Codec), format: f}
	return s, in, fdt.wrap(in.Err())
}

// openStored reads the header and the chunk index of a segment's stored fields.
func openStored(ctx context.Context, seg *Segment) (*storedFields, error) {
	fdt, err := seg.files.core(".fdt")
	if err != nil {
		return nil, err
	}
	p := seg.preamble
	if p == nil {
		if p, err = fdt.readAt(ctx, 0, min(fdt.size, fdtPreamble)); err != nil {
			return nil, err
		}
	}
	s, in, err := parseStoredHeader(p, fdt, seg.id)
	if err != nil {
		return nil, err
	}
	s.segment = seg
	if err := s.format.layout.open(ctx, s, in); err != nil {
		return nil, err
	}
	if err := s.checkIndex(ctx); err != nil {
		return nil, err
	}
	if s.fields, s.infos, err = seg.readerFields(ctx); err != nil {
		return nil, err
	}
	if s.series, err = openSeries(ctx, seg, s.infos); err != nil {
		return nil, err
	}
	_, first, err := s.index.entry(ctx, 0)
	if err != nil {
		return nil, err
	}
	if in.Err() != nil || first != int64(in.Pos()) {
		return nil, fdt.corrupt(int64(in.Pos()), "the first chunk starts at %d in the index", first)
	}
	return s, nil
}

// chunkIndex holds where the chunks of a segment start: entry k is the first document of chunk k and its offset in .fdt, the last entry is
// the end of the last chunk. It belongs to one goroutine.
type chunkIndex struct {
	entries int64
	table   chunkTable

	docs     []int32 // all entries if these are few; else nil
	pointers []int64

	k    int64 // chunk of last
	last place // the last place that was returned; end is 0 if there was none
}

// chunkTable is the chunk index in its file.
type chunkTable interface {
	entry(ctx context.Context, k int64) (doc, pointer int64, err error)
}

// place is the range of a chunk: documents [first, end), bytes [start, stop).
type place struct {
	first, end  int32
	start, stop int64
}

// mostChunks is the maximum number of entries to hold; a longer index is read from its file, in pages.
const mostChunks = 1 << 17

func (x *chunkIndex) chunks() int { return int(x.entries - 1) }

func (x *chunkIndex) entry(ctx context.Context, k int) (doc int32, pointer int64, err error) {
	if x.docs != nil {
		return x.docs[k], x.pointers[k], nil
	}
	d, pointer, err := x.table.entry(ctx, int64(k))
	return int32(d), pointer, err
}

// place returns the range of chunk k.
func (x *chunkIndex) place(ctx context.Context, k int) (p place, err error) {
	if x.last.end > 0 && x.k == int64(k) {
		return x.last, nil
	}
	if x.last.end > 0 && x.k == int64(k)-1 {
		p.first, p.start = x.last.end, x.last.stop
	} else if p.first, p.start, err = x.entry(ctx, k); err != nil {
		return place{}, err
	}
	if p.end, p.stop, err = x.entry(ctx, k+1); err != nil {
		return place{}, err
	}
	x.k, x.last = int64(k), p
	return p, nil
}

// find returns the chunk that holds a document.
func (x *chunkIndex) find(ctx context.Context, doc int32) (k int, err error) {
	k = sort.Search(x.chunks(), func(k int) bool {
		end, _, failed := x.entry(ctx, k+1)
		err = cmp.Or(err, failed)
		return end > doc
	})
	return k, err
}

// checkIndex checks that the chunks cover all documents and bytes without gaps, so that readers can rely on it, and holds a short index in
// memory.
func (s *storedFields) checkIndex(ctx context.Context) error {
	x := &s.index
	maxDoc := int64(s.segment.MaxDoc)
	if x.entries < 2 {
		return s.fdt.corrupt(-1, "%d chunks", x.entries-1)
	}
	var docs []int32
	var pointers []int64
	if x.entries <= s.segment.heldChunks {
		docs, pointers = make([]int32, 0, x.entries), make([]int64, 0, x.entries)
	}
	doc, at := int64(-1), int64(-1)
	for k := range x.entries {
		d, p, err := x.table.entry(ctx, k)
		if err == nil && k&0xFFFF == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		switch {
		case k == 0 && (d != 0 || p < 0), k > 0 && (d <= doc || p <= at), d > maxDoc, p > s.fdt.size:
			return s.fdt.corrupt(at, "chunk %d starts with document %d of %d at %d, the one before with %d", k, d, maxDoc, p, doc)
		}
		doc, at = d, p
		if docs != nil {
			docs, pointers = append(docs, int32(d)), append(pointers, p)
		}
	}
	if doc != maxDoc {
		return s.fdt.corrupt(-1, "the chunks hold %d documents of %d", doc, maxDoc)
	}
	if at != s.maxPointer {
		return s.fdt.corrupt(-1, "the chunks end at %d, the index states %d of %d", at, s.maxPointer, s.fdt.size)
	}
	if x.docs, x.pointers = docs, pointers; docs != nil {
		x.table = nil
	}
	return nil
}

// hasFooter reports whether the .fdt ends with a footer, as all do since Lucene 4.8.
func (s *storedFields) hasFooter() bool { return !s.format.plain || s.version >= 2 }

// numbersFixed reports whether stored numbers have a fixed length, as before Lucene 5.0.
func (s *storedFields) numbersFixed() bool {
	switch s.format.layout.(type) {
	case g40, g41:
		return true
	}
	return false
}

// damaged converts a fault.ErrCorrupt in chunk k to a fault.Damage at the start of the chunk.
func (s *storedFields) damaged(k int, at place, err error) error {
	if _, ok := errors.AsType[*fault.Damage](err); ok || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return s.fdt.damage(at.start, fmt.Errorf("chunk %d: %w", k, err))
}

/*
Stored fields of Lucene 4.0, uncompressed: .fdx is a plain header and an i64 pointer into
.fdt per document; a document is VInt n, then n fields of

	VInt number | u8 bits (2 binary; bits>>3 & 7: 1 int, 2 long, 3 float, 4 double)
	numbers as i32 or i64, everything else VInt length and bytes

rfsd reads it in chunks of g40Chunk documents.
*/
type g40 struct{}

const g40Chunk = 64

func (g40) open(ctx context.Context, s *storedFields, _ *codec.Input) error {
	fdx, err := s.segment.files.core(".fdx")
	if err != nil {
		return err
	}
	t := &g40Index{pages: pages{src: fdx}, docs: int64(s.segment.MaxDoc), end: s.fdt.size}
	head, err := t.at(ctx, 0, min(fdx.size, codec.MaxHeaderLen))
	if err != nil {
		return err
	}
	x := codec.NewInput(head)
	x.Header()
	t.base = int64(x.Pos())
	if left := fdx.size - t.base; x.Err() == nil && left != 8*t.docs {
		x.Fail("%d bytes of pointers for %d documents", left, t.docs)
	}
	s.maxPointer = s.fdt.size
	s.index.entries, s.index.table = (t.docs+g40Chunk-1)/g40Chunk+1, t
	return fdx.wrap(x.Err())
}

// g40Index is the .fdx of Lucene 4.0, with a pointer per document.
type g40Index struct {
	pages
	base, docs, end int64
}

func (t *g40Index) entry(ctx context.Context, k int64) (doc, pointer int64, err error) {
	if doc = k * g40Chunk; doc >= t.docs {
		return t.docs, t.end, nil
	}
	p, err := t.at(ctx, t.base+8*doc, 8)
	if err != nil {
		return 0, 0, err
	}
	return doc, int64(binary.BigEndian.Uint64(p)), nil
}

// header finds the documents of the chunk by skipping over their fields.
func (g40) header(p []byte, at place, _ *storedFields, c *chunk) (int, error) {
	c.reset(at.first, at.end-at.first)
	in := codec.NewInput(p)
	for i := range c.lengths {
		start := in.Pos()
		for n := in.Count(3); n > 0; n-- {
			in.VInt()
			g40Value(in)
		}
		c.lengths[i] = int32(in.Pos() - start)
		c.total += int64(c.lengths[i])
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left after %d documents", in.Left(), len(c.lengths))
	}
	return 0, in.Err()
}

// g40Value reads the bits and the value of a field; value is nil for a number.
func g40Value(in *codec.Input) (bits uint8, value []byte) {
	bits = in.U8()
	switch bits >> 3 & 7 {
	case 0:
		value = in.Take(int(in.VInt()))
	case 1, 3:
		in.Take(4)
	case 2, 4:
		in.Take(8)
	default:
		in.Fail("field of bits %02x", bits)
	}
	return bits, value
}

func (g40) parse(doc []byte, _ int32, t fieldTable, rec *Record) error {
	in := codec.NewInput(doc)
	for n := in.Count(3); n > 0; n-- {
		number := in.VInt()
		bits, value := g40Value(in)
		if number < 0 || int(number) >= len(t) {
			in.Fail("field %d is not in the field infos", number)
			break
		}
		rec.take(t[number], bits&2 == 0, value)
	}
	return in.Err()
}
