package columns

import (
	"context"
	"encoding/binary"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
The set of documents that have a value, in .dvd at the offset that .dvm states. Blocks of
65536 documents, in the byte order of the file:

	u16 block | u16 cardinality-1 |
	cardinality <= 4095  that many u16, the low halves of the document numbers
	cardinality == 65536 nothing: all documents of the block
	else                 [80 and later with a rank power p: 1024 >> (p-7) bytes] 1024 u64, a bitmap

A block 0x7FFF of the one document 0xFFFF ends the set; a jump table may follow.
*/
const (
	setBlock    = 1 << 16
	setWords    = setBlock / 64
	setSparse   = 4095
	setSentinel = 0x7FFF
)

// presence is a set of documents that is read from the file on demand, fastest in ascending order.
type presence interface {
	// seek reports whether a document is in the set, and returns the number of earlier documents in it.
	seek(ctx context.Context, doc int32) (has bool, rank int64, err error)
}

// blockSet is a set in blocks. It holds one block at a time.
type blockSet struct {
	data   *view
	le     bool
	rank   int8
	maxDoc int32
	docs   int64 // the stated number of documents; -1: unknown

	next   int64 // offset of the block after the current one
	block  int32 // the current block; -1: none
	before int64 // documents in the blocks before it
	count  int64 // in it
	ended  bool
	words  [setWords]uint64
	ranks  [setWords]int32 // documents of the block before each word
}

func newBlockSet(e *Entry, data Data, maxDoc int32) *blockSet {
	s := &blockSet{data: newView(data, e.set.off, e.set.size), le: e.le, rank: e.set.rankPower, maxDoc: maxDoc, docs: e.Docs}
	s.rewind()
	return s
}

func (s *blockSet) rewind() {
	s.next, s.block, s.before, s.count, s.ended = s.data.from, -1, 0, 0, false
}

func (s *blockSet) seek(ctx context.Context, doc int32) (bool, int64, error) {
	b := doc >> 16
	if b != s.block {
		if err := s.open(ctx, b); err != nil {
			return false, 0, err
		}
	}
	if s.block != b {
		return false, s.before + s.count, nil
	}
	w, mask := s.words[doc&(setBlock-1)>>6], uint64(1)<<(doc&63)
	return w&mask != 0, s.before + int64(s.ranks[doc&(setBlock-1)>>6]) + int64(bits.OnesCount64(w&(mask-1))), nil
}

// open moves to the last block that is not after b.
func (s *blockSet) open(ctx context.Context, b int32) error {
	if b < s.block {
		s.rewind()
	}
	for s.block < b && !s.ended {
		head, err := s.u16(ctx, s.next, 2)
		if err != nil {
			return err
		}
		number, n := int32(head[0]), int32(head[1])+1
		if number == setSentinel && n == 1 {
			low, err := s.u16(ctx, s.next+4, 1)
			if err != nil {
				return err
			}
			if s.ended = low[0] == 0xFFFF; s.ended {
				if total := s.before + s.count; s.docs >= 0 && total != s.docs {
					return codec.Errorf(s.next, "set of %d documents has %d", s.docs, total)
				}
				return nil
			}
		}
		if number <= s.block || number > setSentinel || int64(number)<<16 >= int64(s.maxDoc) {
			return codec.Errorf(s.next, "block %d after %d, of %d documents", number, s.block, s.maxDoc)
		}
		if number > b {
			return nil
		}
		s.before, s.count = s.before+s.count, int64(n)
		if err := s.load(ctx, number, n); err != nil {
			s.block = -1 // no block is held
			return err
		}
		s.block = number
	}
	return nil
}

// u16 returns n numbers at off.
func (s *blockSet) u16(ctx context.Context, off, n int64) (out [2]uint16, err error) {
	p, err := s.data.at(ctx, off, 2*n)
	for i := range int(min(n, int64(len(p)/2))) {
		out[i] = s.order().Uint16(p[2*i:])
	}
	return out, err
}

func (s *blockSet) order() binary.ByteOrder {
	if s.le {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

// load reads a block of n documents, and finds the next.
func (s *blockSet) load(ctx context.Context, number, n int32) error {
	at := s.next + 4
	last := min(int64(s.maxDoc)-int64(number)<<16, setBlock) // documents that the block can have
	clear(s.words[:])
	switch {
	case n <= setSparse:
		p, err := s.data.at(ctx, at, 2*int64(n))
		if err != nil {
			return err
		}
		before := int64(-1)
		for i := range int(n) {
			low := int64(s.order().Uint16(p[2*i:]))
			if low <= before || low >= last {
				return codec.Errorf(at+int64(2*i), "document %d after %d of block %d, of %d", low, before, number, last)
			}
			before = low
			s.words[low>>6] |= 1 << (low & 63)
		}
		s.next = at + 2*int64(n)
	case n == setBlock:
		if last < setBlock {
			return codec.Errorf(at, "%d documents of block %d, of %d", n, number, last)
		}
		for i := range s.words {
			s.words[i] = ^uint64(0)
		}
		s.next = at
	default:
		if s.rank != -1 {
			if s.rank < 7 || s.rank > 15 {
				return codec.Errorf(at, "rank power %d", s.rank)
			}
			at += 1024 >> (s.rank - 7)
		}
		p, err := s.data.at(ctx, at, 8*setWords)
		if err != nil {
			return err
		}
		for i := range s.words {
			s.words[i] = s.order().Uint64(p[8*i:])
		}
		s.next = at + 8*setWords
	}
	return s.countWords(at, n, last)
}

// countWords sets the ranks of the current block, and checks the number of its documents.
func (s *blockSet) countWords(at int64, n int32, last int64) error {
	sum := int32(0)
	for i, w := range s.words {
		s.ranks[i] = sum
		sum += int32(bits.OnesCount64(w))
		if over := last - int64(i)<<6; w != 0 && over < 64 && (over <= 0 || w>>over != 0) {
			return codec.Errorf(at, "a document of a block of %d beyond the last", last)
		}
	}
	if sum != n {
		return codec.Errorf(at, "block of %d documents holds %d", n, sum)
	}
	return nil
}

// bitmapSet is one bit per document (Lucene 4 and 5). Its rank is always 0.
type bitmapSet struct{ data *view }

func (s bitmapSet) seek(ctx context.Context, doc int32) (bool, int64, error) {
	p, err := s.data.at(ctx, s.data.from+int64(doc>>3), 1)
	if err != nil {
		return false, 0, err
	}
	return p[0]>>(doc&7)&1 != 0, 0, nil
}

// listSet is the list of the documents in ascending order (Lucene 5).
type listSet struct {
	docs   *sequenceReader
	n      int64
	maxDoc int32

	i    int64 // of doc
	doc  int64 // the current document; maxDoc after the last
	held bool
}

func (s *listSet) seek(ctx context.Context, doc int32) (bool, int64, error) {
	if !s.held || int64(doc) < s.doc && s.i > 0 {
		s.i, s.doc, s.held = -1, -1, true
	}
	for s.doc < int64(doc) && s.i < s.n {
		s.i++
		d := int64(s.maxDoc)
		if s.i < s.n {
			var err error
			d, err = s.docs.at(ctx, s.i)
			if err == nil && (d <= s.doc || d >= int64(s.maxDoc)) {
				err = codec.Errorf(s.docs.off, "document %d after %d, of %d", d, s.doc, s.maxDoc)
			}
			if err != nil {
				s.held = false
				return false, 0, err
			}
		}
		s.doc = d
	}
	return s.doc == int64(doc), s.i, nil
}
