package columns

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
.vemf, the metadata of indexed vectors (Lucene99FlatVectorsFormat). Index header, then until field number -1:

	i32 field | i32 encoding (0 bytes, 1 floats) | i32 similarity | VLong off, VLong len | VInt dimension | i32 vectors n
	i64 off of the set (-2 none, -1 all documents), i64 len, i16 jumps, i8 rank power
	a set at off: i64, VInt shift, MONO(n), i64: the documents of the vectors once more
	footer

Codecs Lucene99FlatVectorsFormatMeta and ES93BFloat16FlatVectorsFormatMeta, version 0, little-endian. The vectors of a field lie
in sequence in .vec, in the order of their documents: numbers of 1 or 4 bytes, of ES93BFloat16 of 2. The formats that
quantize vectors or build graphs keep these files in addition to their own.

.vem of Lucene 9.4 to 9.8 (codecs lucene94HnswVectorsFormatMeta, version 1, and Lucene95HnswVectorsFormatMeta, version 0) has the same
fields, with the location of the graph after the location of the vectors (VLong off, VLong len), and the graph after the documents:

	9.5  VInt connections, VInt levels, of each but the first VInt nodes and each node as a VInt
	     where there are vectors: i64, VInt shift, MONO(nodes of all levels, of the first n), i64
	9.4  the same numbers as i32, the number of nodes of the first level, too, and nothing after them; the dimension is an i32
*/
var vectorFormats = map[string]vectorFormat{
	"Lucene99FlatVectorsFormatMeta":     {floats: 4},
	"ES93BFloat16FlatVectorsFormatMeta": {floats: 2},
	"Lucene95HnswVectorsFormatMeta":     {floats: 4, graph: (*codec.Input).VInt},
	"lucene94HnswVectorsFormatMeta":     {version: 1, floats: 4, graph: (*codec.Input).I32, early: true},
}

// vectorFormat describes the layout of a codec's metadata.
type vectorFormat struct {
	version int32
	floats  int64                    // bytes of a float
	graph   func(*codec.Input) int32 // reads a number of the graph; nil if the format has none
	early   bool                     // Lucene 9.4
}

// Vector holds the properties that the field infos state of a field with vectors.
type Vector struct {
	Dimension int32
	Floats    bool
}

// maxDimension bounds the dimension of a vector; Elasticsearch allows 4,096, for bit vectors 32,768.
const maxDimension = 1 << 16

// ParseVectors returns the vectors of a .vemf or .vem file by field number, each as a column of bytes in .vec. id is the segment's id, ""
// if it is unknown; field returns the properties of a field, false if it has no vectors.
func ParseVectors(b []byte, id, suffix string, field func(number int32) (Vector, bool)) (map[int32]*Entry, error) {
	in := codec.NewInput(b)
	h := in.IndexHeader()
	if in.Err() != nil {
		return nil, in.Err()
	}
	format, ok := vectorFormats[h.Codec]
	switch {
	case !ok || h.Version != format.version:
		return nil, fmt.Errorf("vectors of codec %q, version %d, are unknown: %w", h.Codec, h.Version, fault.ErrUnsupported)
	case h.Suffix != suffix:
		return nil, codec.Errorf(0, "suffix %q where %q is expected", h.Suffix, suffix)
	case id != "" && h.ID != id:
		return nil, codec.Errorf(0, "the file belongs to segment %x, not %x", h.ID, id)
	}
	out := map[int32]*Entry{}
	for in.Err() == nil {
		number := in.I32()
		if number == -1 {
			break
		}
		f, ok := field(number)
		if in.Err() == nil && (!ok || out[number] != nil) {
			in.Fail("vectors of field %d, which has none or has them already", number)
		}
		e, err := format.entry(in, f)
		if err != nil {
			return nil, err
		}
		out[number] = e
	}
	if in.Err() == nil && in.Left() != codec.FooterLen {
		in.Fail("%d bytes left where %d of the footer follow", in.Left(), codec.FooterLen)
	}
	return out, in.Err()
}

// entry reads the entry of one field.
func (v vectorFormat) entry(in *codec.Input, f Vector) (*Entry, error) {
	width, encoding := int64(1), in.I32()
	if f.Floats {
		width = v.floats
	}
	in.I32()
	blobs := &blobs{off: in.VLong(), size: in.VLong()}
	if v.graph != nil {
		in.VLong()
		in.VLong()
	}
	readDimension := (*codec.Input).VInt
	if v.early {
		readDimension = (*codec.Input).I32
	}
	dimension := readDimension(in)
	n := int64(in.I32())
	e := &Entry{Kind: Binary, Docs: n, Values: n, le: true, blobs: blobs, set: docSet{off: in.I64(), size: in.I64()}}
	in.I16()
	e.set.rankPower = int8(in.U8())
	reordered := e.set.off < setNone
	if e.set.off >= 0 {
		in.I64()
		if shift := in.VInt(); shift > 0 {
			in.Monotonic(n, shift)
		} else {
			reordered = true
		}
		in.I64()
	}
	if v.graph != nil {
		v.skipGraph(in, n)
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	if reordered {
		return nil, fmt.Errorf("vectors in another order than their documents are unknown: %w", fault.ErrUnsupported)
	}
	if f.Floats != (encoding == 1) || encoding < 0 || encoding > 1 || dimension != f.Dimension || dimension <= 0 || dimension > maxDimension {
		in.Fail("vectors of %d numbers, encoding %d, where field infos state %d", dimension, encoding, f.Dimension)
	}
	if size := int64(dimension) * width; n < 0 || blobs.off < 0 || blobs.size != n*size {
		in.Fail("%d vectors of %d bytes in %d bytes at %d", n, size, blobs.size, blobs.off)
	} else {
		blobs.shortest, blobs.longest = int32(size), int32(size)
	}
	return e, in.Err()
}

// skipGraph skips the metadata of the graph of n vectors.
func (v vectorFormat) skipGraph(in *codec.Input, n int64) {
	v.graph(in)
	nodes := n
	for level := range v.graph(in) {
		if level == 0 && !v.early {
			continue
		}
		count := v.graph(in)
		if in.Err() != nil {
			return
		}
		if count < 0 || int64(count) > n || level > 0 && int(count) > in.Left() {
			in.Fail("%d nodes in a graph of %d vectors", count, n)
			return
		}
		if level == 0 {
			continue
		}
		nodes += int64(count)
		for range count {
			v.graph(in)
		}
	}
	if v.early || nodes == 0 || in.Err() != nil {
		return
	}
	in.I64()
	in.Monotonic(nodes, in.VInt())
	in.I64()
}
