package columns

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// maxFile bounds offsets in a file, so that sums of them do not overflow.
const maxFile = 1 << 56

/*
PACKED(n), n values in blocks of 2^shift, in the .dvd file of Lucene 4 and 5:

	zig-zag VLong min (version < 2: VLong) | i32 average as float | VInt bits | the differences from the expected values, packed
*/
type packedSequence struct {
	n       int64
	version int32
	shift   int32
	ends    bool // the first value, 0, is omitted
}

type packedBlock struct {
	min  int64
	avg  float32
	bits int
	off  int64 // of the differences
}

// maxPackedHead bounds the head of a block.
const maxPackedHead = 10 + 4 + 5

// nextHead returns the offset of the block that follows the blocks in read (the first is at off), and an input of at most most of its
// bytes.
func (p *packedSequence) nextHead(ctx context.Context, data *view, off int64, read []packedBlock, most int64) (at int64, in *codec.Input, err error) {
	at = off
	if n := len(read); n > 0 {
		last := read[n-1]
		at = last.off + codec.PackedLen(1<<p.shift, last.bits, p.version)
	}
	head, err := data.at(ctx, at, min(most, max(data.to-at, 0)))
	if err != nil {
		return 0, nil, err
	}
	return at, codec.NewInput(head), nil
}

// packedAt returns value i; the heads of the blocks up to it are read once.
func (s *sequenceReader) packedAt(ctx context.Context, i int64) (int64, error) {
	p := s.packed
	if i < 0 || i >= p.n {
		return 0, codec.Errorf(s.off, "value %d of a sequence of %d", i, p.n)
	}
	if p.ends {
		if i == 0 {
			return 0, nil
		}
		i--
	}
	for int64(len(s.blocks)) <= i>>p.shift {
		if err := s.nextPacked(ctx); err != nil {
			return 0, err
		}
	}
	b, k := s.blocks[i>>p.shift], i&(1<<p.shift-1)
	v := b.min + int64(float32(b.avg*float32(k)))
	if b.bits == 0 {
		return v, nil
	}
	skip, n := codec.DirectSpan(b.bits, k)
	span, err := s.data.at(ctx, b.off+skip, n)
	if err != nil {
		return 0, err
	}
	delta := int64(codec.DirectIn(span, b.bits, k, false))
	if p.version < 2 {
		delta = codec.ZigZag64(delta)
	}
	return v + delta, nil
}

func (s *sequenceReader) nextPacked(ctx context.Context) error {
	p := s.packed
	at, in, err := p.nextHead(ctx, s.data, s.off, s.blocks, maxPackedHead)
	if err != nil {
		return err
	}
	b := packedBlock{min: in.VLong()}
	if p.version >= 2 {
		b.min = codec.ZigZag64(b.min)
	}
	b.avg, b.bits = in.F32(), int(in.VInt())
	if in.Err() == nil && (b.bits < 0 || b.bits > 64) {
		in.Fail("packed values of %d bits", b.bits)
	}
	if in.Err() != nil {
		return codec.Errorf(at, "block of a sequence: %w", in.Err())
	}
	b.off = at + int64(in.Pos())
	s.blocks = append(s.blocks, b)
	return nil
}

/*
oldTerms are the terms of a sorted column: in sequence, or in blocks of 16 with shared prefixes:

	VInt length, first term | 15 bytes d, or when the first is 0xFF 0xFF and 15 i16 d | the others
	each other: u8 prefix, which it shares with the first term, d+1 bytes

Before Lucene 4.10 each term of a block: VInt prefix, which it shares with the preceding term, VInt n, n bytes.
*/
type oldTerms struct {
	blobs
	n        int64
	prefixes bool
	block    int64 // terms of a block
	chained  bool  // prefixes are shared with the preceding term
}

const (
	oldBlock   = 16
	maxChained = 1 << 10 // terms of a block before Lucene 4.10; writers use 16
)

type oldTermReader struct {
	t         *oldTerms
	data      *view
	addresses *sequenceReader
	block     int64 // the current block; -1: none
	terms     [][]byte
	ends      []int
	bytes     []byte
}

func newOldTermReader(t *oldTerms, data Data) *oldTermReader {
	r := &oldTermReader{t: t, data: newView(data, t.off, t.size), block: -1, terms: make([][]byte, t.block), ends: make([]int, t.block)}
	if t.addresses != nil {
		r.addresses = newSequenceReader(t.addresses, data)
	}
	return r
}

// at returns a term, valid until the next call.
func (r *oldTermReader) at(ctx context.Context, ordinal int64) ([]byte, error) {
	if ordinal < 0 || ordinal >= r.t.n {
		return nil, codec.Errorf(r.t.off, "ordinal %d of %d terms", ordinal, r.t.n)
	}
	if !r.t.prefixes {
		return r.t.at(ctx, r.data, r.addresses, ordinal)
	}
	if b := ordinal / r.t.block; b != r.block {
		r.block = -1
		if err := r.open(ctx, b); err != nil {
			return nil, err
		}
		r.block = b
	}
	return r.terms[ordinal%r.t.block], nil
}

// open reads the terms of a block.
func (r *oldTermReader) open(ctx context.Context, block int64) error {
	start, err := r.addresses.at(ctx, block)
	if err != nil {
		return err
	}
	end := r.t.size
	if block+1 < r.addresses.packed.n {
		if end, err = r.addresses.at(ctx, block+1); err != nil {
			return err
		}
	}
	longest := int64(r.t.longest)
	if start < 0 || end < start || end > r.t.size || longest < 0 || longest > maxTerm || end-start > r.t.block*(longest+termHead)+8 {
		return codec.Errorf(r.t.off, "block %d of terms from %d to %d of %d bytes, the longest term %d", block, start, end, r.t.size, longest)
	}
	p, err := r.data.at(ctx, r.t.off+start, end-start)
	if err != nil {
		return err
	}
	in := codec.NewInput(p)
	n := int(min(r.t.block, r.t.n-block*r.t.block))
	if r.bytes = r.bytes[:0]; r.t.chained {
		r.chain(in, n, int(longest))
	} else {
		r.unfold(in, n, longest)
	}
	from := 0
	for i := range n {
		r.terms[i], from = r.bytes[from:max(from, r.ends[i])], r.ends[i]
	}
	return at(r.t.off+start, in.Err())
}

// termHead bounds the overhead of a term in a block, in bytes.
const termHead = 10

// chain reads n terms that share prefixes with the preceding term.
func (r *oldTermReader) chain(in *codec.Input, n, longest int) {
	from, size := 0, 0 // of the preceding term
	for i := 0; i < n && in.Err() == nil; i++ {
		prefix := int(in.VInt())
		suffix := in.Take(int(in.VInt()))
		if in.Err() == nil && (prefix < 0 || prefix > size || prefix+len(suffix) > longest) {
			in.Fail("term of %d+%d bytes after one of %d, the longest has %d", prefix, len(suffix), size, longest)
		}
		if in.Err() == nil {
			end := len(r.bytes)
			r.bytes = append(append(r.bytes, r.bytes[from:from+prefix]...), suffix...)
			from, size, r.ends[i] = end, len(r.bytes)-end, len(r.bytes)
		}
	}
}

// unfold reads n terms that share prefixes with the first.
func (r *oldTermReader) unfold(in *codec.Input, n int, longest int64) {
	first := in.Take(int(in.VInt()))
	if in.Err() == nil && len(first) > int(longest) {
		in.Fail("term of %d bytes, the longest has %d", len(first), longest)
	}
	lengths := r.lengths(in)
	r.bytes = append(r.bytes, first...)
	r.ends[0] = len(r.bytes)
	for i := 1; i < n && in.Err() == nil; i++ {
		prefix := int(in.U8())
		suffix := in.Take(lengths[i-1])
		if in.Err() == nil && (prefix > len(first) || prefix+len(suffix) > int(longest)) {
			in.Fail("term of %d+%d bytes after one of %d, the longest has %d", prefix, len(suffix), len(first), longest)
		}
		if in.Err() == nil {
			r.bytes = append(append(r.bytes, first[:prefix]...), suffix...)
			r.ends[i] = len(r.bytes)
		}
	}
}

// lengths returns the lengths of the suffixes of all terms except the first.
func (r *oldTermReader) lengths(in *codec.Input) (out [oldBlock - 1]int) {
	small := in.Take(oldBlock - 1)
	if small == nil {
		return out
	}
	if small[0] != 0xFF {
		for i, d := range small {
			out[i] = int(d) + 1
		}
		return out
	}
	wide := append(append(make([]byte, 0, 2*oldBlock), small[1:]...), in.Take(oldBlock)...)
	for i := range out {
		if in.Err() == nil {
			out[i] = int(binary.BigEndian.Uint16(wide[2*i:])) + 1
		}
	}
	return out
}

// at returns value i of values stored in sequence.
func (b *blobs) at(ctx context.Context, data *view, places *sequenceReader, i int64) ([]byte, error) {
	if places == nil {
		if b.shortest < 0 || b.shortest > maxBinary || b.shortest != b.longest {
			return nil, codec.Errorf(b.off, "values of %d to %d bytes", b.shortest, b.longest)
		}
		return data.at(ctx, b.off+i*int64(b.longest), int64(b.longest))
	}
	from, to, err := places.pair(ctx, i, b.size)
	if err != nil {
		return nil, err
	}
	if to-from > maxBinary {
		return nil, codec.Errorf(b.off, "value of %d bytes", to-from)
	}
	return data.at(ctx, b.off+from, to-from)
}

// everywhere reports whether all documents have a value, and whether none has, as far as the metadata state it.
func (o *oldColumn) everywhere(e *Entry, maxDoc int32) (all, none bool) {
	if o.docs != nil || o.ordinals || o.sets != nil || e.addresses != nil {
		return false, false
	}
	return o.missing == setAll && e.Docs == int64(maxDoc), o.missing == setNone
}

// advanceOld is Advance in a column of Lucene 4 or 5.
func (r *Reader) advanceOld(ctx context.Context, doc int32) (int, error) {
	old := r.e.old
	if !r.opened {
		if err := r.openOld(); err != nil {
			return 0, err
		}
		r.opened = true
	}
	r.doc, r.count, r.set = doc, 0, nil
	if old.missing == setNone {
		return 0, nil
	}
	r.begin = int64(doc)
	if r.docs != nil {
		has, rank, err := r.docs.seek(ctx, doc)
		if err != nil || !has {
			return 0, err
		}
		if old.docs != nil {
			r.begin = rank
		}
	}
	switch {
	case r.addresses != nil:
		from, to, err := r.addresses.pair(ctx, r.begin, r.e.Values)
		if err == nil && to-from > math.MaxInt32 {
			err = codec.Errorf(r.addresses.off, "document %d has %d values", doc, to-from)
		}
		if err != nil {
			return 0, err
		}
		r.begin, r.count = from, int(to-from)
	case old.sets != nil:
		number, err := r.numbers.at(ctx, r.begin, doc)
		if err == nil && (number < 0 || number >= int64(len(old.sets))) {
			err = codec.Errorf(r.numbers.n.off, "set %d of %d", number, len(old.sets))
		}
		if err != nil {
			return 0, err
		}
		r.set = old.sets[number]
		r.count = len(r.set)
	case old.ordinals:
		number, err := r.numbers.at(ctx, r.begin, doc)
		if err != nil {
			return 0, err
		}
		if number >= 0 {
			r.count = 1
		}
	default:
		r.count = 1
	}
	return r.count, nil
}

// openOld opens the set of documents if it is stored apart from the values.
func (r *Reader) openOld() error {
	old := r.e.old
	switch {
	case old.docs != nil:
		if old.count > int64(r.maxDoc) {
			return codec.Errorf(old.docs.off, "column of %d documents of %d", old.count, r.maxDoc)
		}
		r.docs = &listSet{docs: newSequenceReader(old.docs, r.data), n: old.count, maxDoc: r.maxDoc}
	case old.missing >= 0:
		r.docs = bitmapSet{newView(r.data, old.missing, (int64(r.maxDoc)+7)/8)}
	case old.missing < setNone:
		return codec.Errorf(-1, "the set of documents at %d", old.missing)
	}
	return nil
}
