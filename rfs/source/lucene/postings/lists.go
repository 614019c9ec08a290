package postings

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
)

/*
Documents of a term in .doc (nothing for a term in a single document): full blocks of N, then the rest.

	block  differences to the preceding document, frequencies. Before Lucene 8.4 as oldBlocks; differences of Lucene 8.4 and
	       9.9 to 9.11: u8 bits (0: all are 1), the numbers; Lucene 9.0 and Elasticsearch's with exceptions
	       inline: VLong n, n bytes, then the same; bitsets: u8 bits, 0: all are 1, negative: that many words of 64 bits, bit
	       k is the document k+1 after the preceding one. Before every 32 full blocks: VInt, VLong, [frequencies: i16 n, n bytes]
	rest   VInt difference << 1 | frequency is 1, else VInt frequency; without frequencies VInt difference
	       groups: all differences first, in fours after a u8 of their lengths - 1, little-endian; the last one to three as VInt

Positions in .pos: blocks of N differences with exceptions (before 8.4 oldBlocks), then the rest:

	VInt difference; with payloads VInt difference << 1 | VInt length follows, that many bytes; with offsets VInt << 1 | VInt
	length follows

The first position of a document is a difference to 0.
*/
type lists struct {
	d        *Dictionary
	f        *field
	old      oldBlocks
	doc, pos *cursor
	docs     [maxBlock]uint32
	freqs    [maxBlock]uint32
	deltas   [maxBlock]uint32
	at, n    int   // next and number of deltas
	left     int64 // positions of the term after deltas
	payload  int64 // length of the last payload
	room     int64 // number of further documents, of all terms, that .doc can hold
	roomPos  int64 // number of further positions that .pos can hold
	begun    mark  // start of the deltas; only pos and positions are set
}

// mark is a point to read the list of a term from: a block of documents, and a position within a block of positions. The zero value is the
// start of the list.
type mark struct {
	docs, doc, left int64 // offset in .doc, the document before it, number of documents from there on
	pos, positions  int64 // offset in .pos, number of positions from there on
	at              int   // number of these positions that belong to earlier documents
}

// markSize is the size of a mark, in bytes.
const markSize = 48

// groupBlocks is the number of blocks that share a head.
const groupBlocks = 32

func (d *Dictionary) lists(ctx context.Context, f *field) (*lists, error) {
	l := &lists{d: d, f: f, doc: newCursor(ctx, d.files.Docs), pos: newCursor(ctx, d.files.Positions)}
	l.room = d.files.Docs.Size() * int64(d.block)
	if f.Positions {
		l.roomPos = d.files.Positions.Size() * int64(d.block)
	}
	if d.word == 0 {
		header(l.doc, "", "", d.dictionary == dictionary4)
		l.old = readOldBlocks(l.doc)
	}
	return l, l.doc.err
}

// each calls yield for each position of a term in the documents [from, *to); yield may lower *to. If the field has no positions, it calls
// yield once per document, with the frequency. It reads the list from m, which must be before these documents, and returns a mark before
// the last document that it read.
func (l *lists) each(t *term, m mark, from int32, to *int32, yield func(doc, position int32) error) (next mark, err error) {
	if t.single >= 0 {
		l.begin(mark{pos: t.pos, positions: t.positions})
		if t.single < from || t.single >= *to {
			return mark{}, nil
		}
		return mark{}, l.occurrences(t.single, t.positions, yield)
	}
	if m.left == 0 {
		m = mark{docs: t.docs, doc: -1, left: t.documents, pos: t.pos, positions: t.positions}
		if l.d.word == 0 || !l.d.inline {
			m.doc = 0
		}
	}
	l.begin(m)
	doc, group, block := m.doc, int64(groupBlocks*l.d.block), int64(l.d.block)
	for left := m.left; left > 0; left -= block {
		next = l.mark(doc, left)
		n := min(left, block)
		if l.room -= n; l.room < 0 {
			l.doc.fail("more documents than the file holds: terms share them")
			return mark{}, l.err()
		}
		switch {
		case n < block:
			l.rest(int(n))
		default:
			if done := t.documents - left; l.d.inline && done%group == 0 && left >= group {
				l.head()
			}
			l.whole()
		}
		for i := range n {
			doc += int64(l.docs[i])
			if doc < 0 || doc >= 1<<31-1 || l.freqs[i] == 0 {
				l.doc.fail("document %d, %d times", doc, l.freqs[i])
			}
			if err := l.err(); err != nil || doc >= int64(*to) {
				return next, err
			}
			if doc >= int64(from) {
				if err := l.occurrences(int32(doc), int64(l.freqs[i]), yield); err != nil {
					return mark{}, err
				}
			} else if l.f.Positions {
				l.pass(int64(l.freqs[i]))
			}
		}
	}
	return next, l.err()
}

// begin moves to a mark.
func (l *lists) begin(m mark) {
	l.doc.seek(m.docs)
	l.pos.seek(m.pos)
	l.at, l.n, l.left, l.payload = 0, 0, m.positions, 0
	if m.at > 0 {
		l.refill()
		l.at = m.at
	}
}

// mark returns the mark after doc; left is the number of documents that follow.
func (l *lists) mark(doc, left int64) mark {
	m := mark{docs: l.doc.pos, doc: doc, left: left, pos: l.pos.pos, positions: l.left}
	if l.at < l.n {
		m.pos, m.positions, m.at = l.begun.pos, l.begun.positions, l.at
	}
	return m
}

func (l *lists) err() error {
	if l.doc.err != nil {
		return l.doc.err
	}
	return l.pos.err
}

// head skips the head of 32 blocks.
func (l *lists) head() {
	l.doc.vint()
	l.doc.vlong()
	if l.f.Frequencies {
		l.doc.skip(l.doc.i16())
	}
}

// whole reads a full block of documents.
func (l *lists) whole() {
	c, d := l.doc, l.d
	fill(l.freqs[:d.block], 1)
	switch {
	case d.word == 0:
		l.old.read(c, l.docs[:])
		if l.f.Frequencies {
			l.old.read(c, l.freqs[:])
		}
		return
	case d.inline:
		c.skip(c.vlong())
	}
	if d.patched {
		d.patch(c, l.docs[:])
	} else {
		l.differences()
	}
	if l.f.Frequencies {
		d.patch(c, l.freqs[:])
	}
}

// differences reads a block of differences without exceptions.
func (l *lists) differences() {
	c, d := l.doc, l.d
	switch width := int8(c.u8()); {
	case width == 0:
		fill(l.docs[:d.block], 1)
	case width > 0 && width <= 32:
		d.unpack(c, int(width), d.primitive(int(width), d.widths), l.docs[:])
	case width < 0 && d.bitsets:
		words := -int(width)
		p := c.take(int64(8 * words))
		n, last := 0, -1
		for i := 0; i < len(p)/8; i++ {
			for w := binary.LittleEndian.Uint64(p[8*i:]); w != 0; w &= w - 1 {
				k := 64*i + bits.TrailingZeros64(w)
				if n < d.block {
					l.docs[n] = uint32(k - last)
				}
				n, last = n+1, k
			}
		}
		if c.err == nil && n != d.block {
			c.fail("bitmap of %d documents", n)
		}
	default:
		c.fail("packed values of %d bits", width)
	}
}

// rest reads the last documents, fewer than a block.
func (l *lists) rest(n int) {
	c := l.doc
	fill(l.freqs[:n], 1)
	if l.d.groups {
		l.grouped(n)
	}
	for i := range n {
		if !l.d.groups {
			l.docs[i] = c.wide()
		}
		if !l.f.Frequencies {
			continue
		}
		once := l.docs[i]&1 != 0
		if l.docs[i] >>= 1; !once {
			l.freqs[i] = c.wide()
		}
	}
}

func (l *lists) grouped(n int) {
	c := l.doc
	i := 0
	for ; i+4 <= n; i += 4 {
		lengths := c.u8()
		for k := range 4 {
			size := int64(lengths>>(6-2*k)&3) + 1
			v := uint32(0)
			for j, b := range c.take(size) {
				v |= uint32(b) << (8 * j)
			}
			l.docs[i+k] = v
		}
	}
	for ; i < n; i++ {
		l.docs[i] = c.wide()
	}
}

// occurrences calls yield for the indexed occurrences of a term in a document that contains it n times.
func (l *lists) occurrences(doc int32, n int64, yield func(doc, position int32) error) error {
	if l.f.Positions {
		return l.positions(doc, n, yield)
	}
	if n > math.MaxInt32 {
		l.doc.fail("document %d, %d times", doc, n)
		return l.err()
	}
	return yield(doc, int32(n))
}

// positions calls yield for the next n positions, which belong to one document.
func (l *lists) positions(doc int32, n int64, yield func(doc, position int32) error) error {
	position := int64(0)
	for range n {
		if l.at == l.n {
			l.refill()
		}
		if err := l.err(); err != nil {
			return err
		}
		if position += int64(l.deltas[l.at]); position >= 1<<31 {
			l.pos.fail("position %d", position)
			return l.err()
		}
		l.at++
		if err := yield(doc, int32(position)); err != nil {
			return err
		}
	}
	return nil
}

// pass skips n positions.
func (l *lists) pass(n int64) {
	for n > 0 && l.err() == nil {
		if l.at < l.n {
			k := min(n, int64(l.n-l.at))
			l.at, n = l.at+int(k), n-k
			continue
		}
		if block := int64(l.d.block); n >= block && l.left >= block {
			l.take(block)
			if n -= block; l.d.word == 0 {
				l.old.skip(l.pos)
			} else {
				l.d.skipPatch(l.pos)
			}
			continue
		}
		l.refill()
	}
}

// refill reads the next block of positions.
func (l *lists) refill() {
	l.at, l.n = 0, int(min(l.left, int64(l.d.block)))
	if l.n == 0 {
		l.pos.fail("more positions than the term has")
		return
	}
	l.begun = mark{pos: l.pos.pos, positions: l.left}
	l.take(int64(l.n))
	switch {
	case l.n < l.d.block:
		l.lastPositions()
	case l.d.word == 0:
		l.old.read(l.pos, l.deltas[:])
	default:
		l.d.patch(l.pos, l.deltas[:])
	}
}

// take counts n positions as read.
func (l *lists) take(n int64) {
	l.left -= n
	if l.roomPos -= n; l.roomPos < 0 {
		l.pos.fail("more positions than the file holds: terms share them")
	}
}

func (l *lists) lastPositions() {
	c := l.pos
	for i := range l.n {
		v := c.wide()
		if l.f.Payloads {
			if v&1 != 0 {
				l.payload = int64(c.vint())
			}
			v >>= 1
			c.skip(l.payload)
		}
		if l.f.Offsets && c.wide()&1 != 0 {
			c.vint()
		}
		l.deltas[i] = v
	}
}
