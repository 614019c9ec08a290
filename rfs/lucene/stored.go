package lucene

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

/*
Stored fields: .fdt holds documents in compressed chunks, .fdx (and .fdm) say where each
chunk begins. The codec name in the header of .fdt decides everything; the codec of the
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

// storedLayout is one generation of the files around the chunks.
type storedLayout interface {
	// open reads what follows the .fdt header, where in stands, and the index.
	open(ctx context.Context, s *storedFields, in *codec.Input) error
	// header parses the head of chunk k from p, which holds all of it, and returns its length.
	header(p []byte, k int, s *storedFields, c *chunk) (int, error)
	// parse takes what a migration needs from one document.
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
	series        *series // nil: ids are stored
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
		return nil, nil, fmt.Errorf("%s: stored fields of codec %q are not known; reindex or merge the index with a standard codec and snapshot it again: %w", fdt.name, h.Codec, fault.ErrUnsupported)
	}
	if h.Version < f.minV || h.Version > f.maxV {
		return nil, nil, fmt.Errorf("%s: stored fields of codec %s version %d are not known: %w", fdt.name, h.Codec, h.Version, fault.ErrUnsupported)
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
	if err := s.checkIndex(); err != nil {
		return nil, err
	}
	if s.series, err = openSeries(ctx, seg); err != nil {
		return nil, err
	}
	if first := s.index.pointers[0]; in.Err() != nil || first != int64(in.Pos()) {
		return nil, fdt.corrupt(int64(in.Pos()), "the first chunk begins at %d in the index", first)
	}
	return s, nil
}

// chunkIndex describes where the chunks of a segment begin: chunk k holds the documents
// [docs[k], docs[k+1]) in the bytes [pointers[k], pointers[k+1]) of .fdt.
type chunkIndex struct {
	docs     []int32
	pointers []int64
}

func (x *chunkIndex) chunks() int { return len(x.docs) - 1 }

// find returns the chunk that holds a document.
func (x *chunkIndex) find(doc int32) int {
	return sort.Search(x.chunks(), func(k int) bool { return x.docs[k+1] > doc })
}

// checkIndex proves that documents and bytes are divided without gaps, so that readers
// can rely on it.
func (s *storedFields) checkIndex() error {
	x := &s.index
	maxDoc := int32(s.segment.MaxDoc)
	n := x.chunks()
	if n < 1 || len(x.pointers) != len(x.docs) {
		return s.fdt.corrupt(-1, "%d chunks with %d pointers", n, len(x.pointers)-1)
	}
	if x.docs[0] != 0 || x.docs[n] != maxDoc {
		return s.fdt.corrupt(-1, "the chunks hold documents %d to %d of %d", x.docs[0], x.docs[n], maxDoc)
	}
	if x.pointers[0] < 0 || x.pointers[n] != s.maxPointer || s.maxPointer > s.fdt.size {
		return s.fdt.corrupt(-1, "the chunks end at %d, the index says %d of %d", x.pointers[n], s.maxPointer, s.fdt.size)
	}
	for k := range n {
		if x.docs[k+1] <= x.docs[k] || x.pointers[k+1] <= x.pointers[k] {
			return s.fdt.corrupt(x.pointers[k], "chunk %d of documents %d to %d ends at %d", k, x.docs[k], x.docs[k+1], x.pointers[k+1])
		}
	}
	return nil
}

// hasFooter reports whether the .fdt ends with a footer: all but those before Lucene 4.8.
func (s *storedFields) hasFooter() bool { return !s.format.plain || s.version >= 2 }

// numbersFixed reports whether numbers have the lengths that they had before Lucene 5.0.
func (s *storedFields) numbersFixed() bool {
	switch s.format.layout.(type) {
	case g40, g41:
		return true
	}
	return false
}

// damaged makes an error of the content of chunk k a Damage of its place.
func (s *storedFields) damaged(k int, err error) error {
	if _, ok := errors.AsType[*fault.Damage](err); ok || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return s.fdt.damage(s.index.pointers[k], fmt.Errorf("chunk %d: %w", k, err))
}
