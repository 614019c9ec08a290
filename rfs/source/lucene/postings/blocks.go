package postings

import (
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
)

/*
A block of .tim holds terms that share a prefix:

	VInt entries << 1 | last block of this prefix | suffixes | statistics | metadata

	suffixes    compressed: VLong length << 3 | leaf << 2 | compression (0 none, 1 six bits, 2 LZ4), the suffixes;
	            VInt length << 1 | all equal, the lengths (or one byte)
	            else: VInt length << 1 | leaf, the suffixes, each after its length
	lengths     VInt n; not in a leaf: VInt n << 1 | is a sub-block; then VLong its distance before this block
	statistics  VInt length; compressed: VInt n << 1 | 1: this and n more terms occur once, or VInt documents << 1;
	            else VInt documents; then with frequencies VLong positions - documents
	metadata    VInt length; VLong and VInt as decode reads them (before Lucene 4.7 decodeMixed), each as a difference to the preceding term
*/

// term holds the properties of a term in a dictionary.
type term struct {
	documents, positions int64
	docs, pos            int64 // their offsets in .doc and .pos
	single               int32 // its only document; -1: it has several
}

// maxTerm bounds the length of a term in bytes, as Lucene does.
const maxTerm = 32766

// maxBlockBytes bounds the parts of a block, which has at most 48 entries unless terms differ in their first byte only.
const maxBlockBytes = 16 << 20

// blockWalker visits the blocks of a field.
type blockWalker struct {
	d     *Dictionary
	f     *field
	in    *cursor
	yield func(text []byte, t *term) error

	text  []byte
	terms int64
	bytes int64 // of the blocks so far
	stack []pending
}

// pending is a block that is not read yet.
type pending struct {
	at     int64
	prefix []byte
}

// walk calls yield for each term of a field, in no particular order.
func (d *Dictionary) walk(ctx context.Context, f *field, yield func(text []byte, t *term) error) error {
	w := &blockWalker{d: d, f: f, in: newCursor(ctx, d.files.Terms), yield: yield, stack: []pending{{at: f.root}}}
	for len(w.stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		mark := len(w.stack)
		w.in.seek(b.at)
		for last := false; !last; {
			var err error
			if last, err = w.block(b.prefix); err != nil {
				return err
			}
		}
		for i, j := mark, len(w.stack)-1; i < j; i, j = i+1, j-1 { // ascending offsets
			w.stack[i], w.stack[j] = w.stack[j], w.stack[i]
		}
	}
	if w.terms != f.terms {
		w.in.fail("%d terms, %d are stated", w.terms, f.terms)
	}
	return w.in.err
}

// block reads one block; last is false if another block of the same prefix follows.
func (w *blockWalker) block(prefix []byte) (last bool, err error) {
	in := w.in
	at := in.pos
	head := in.vint()
	entries, last := int(head>>1), head&1 != 0
	suffixes, lengths, leaf := w.suffixes()
	stats := w.part()
	metadata := w.part()
	if w.bytes += in.pos - at; in.err == nil && (w.bytes > in.data.Size() || entries == 0) {
		in.fail("a block of %d entries that is read twice", entries)
	}
	if in.err != nil {
		return false, in.err
	}
	t := &term{}
	run, first := int32(0), true
	for range entries {
		n := lengths.VInt()
		below := false
		if !leaf {
			below, n = n&1 != 0, int32(uint32(n)>>1)
		}
		var far int64
		if below && lengths != suffixes {
			far = lengths.VLong()
		}
		suffix := suffixes.Take(int(n))
		if below && lengths == suffixes {
			far = suffixes.VLong()
		}
		if lengths.Err() == nil && suffixes.Err() == nil && len(prefix)+len(suffix) > maxTerm {
			suffixes.Fail("a term of %d bytes", len(prefix)+len(suffix))
		}
		if below {
			if place := at - far; lengths.Err() == nil && (far <= 0 || place < 0) {
				lengths.Fail("a block %d bytes before", far)
			} else {
				w.stack = append(w.stack, pending{place, append(append([]byte(nil), prefix...), suffix...)})
			}
		} else {
			run = w.statistics(stats, run, t)
			w.decode(metadata, t, first)
			first = false
		}
		for _, part := range []*codec.Input{lengths, suffixes, stats, metadata} {
			if err := part.Err(); err != nil {
				return false, in.data.Wrap(codec.Errorf(at, "block of terms: %w", err))
			}
		}
		if below {
			continue
		}
		w.terms++
		if w.terms > w.f.terms {
			in.fail("more than the %d terms that are stated", w.f.terms)
			return false, in.err
		}
		w.text = append(append(w.text[:0], prefix...), suffix...)
		if err := w.yield(w.text, t); err != nil {
			return false, err
		}
	}
	return last, nil
}

// part reads a length and that many bytes.
func (w *blockWalker) part() *codec.Input {
	return codec.NewInput(w.copied(int64(w.in.vint())))
}

// copied reads n bytes.
func (w *blockWalker) copied(n int64) []byte {
	if n > maxBlockBytes {
		w.in.fail("%d bytes of a block of terms", n)
	}
	return append([]byte(nil), w.in.take(n)...)
}

// suffixes reads the suffixes of a block and their lengths; both are the same input if each suffix follows its length.
func (w *blockWalker) suffixes() (suffixes, lengths *codec.Input, leaf bool) {
	in := w.in
	if !w.d.coded {
		head := in.vint()
		suffixes = codec.NewInput(w.copied(int64(head >> 1)))
		return suffixes, suffixes, head&1 != 0
	}
	head := in.vlong()
	n := head >> 3
	if in.err == nil && (n < 0 || n > maxBlockBytes) {
		in.fail("%d bytes of suffixes", n)
	}
	var raw []byte
	switch {
	case in.err != nil:
	case head&3 == 0:
		raw = w.copied(n)
	case head&3 == 1:
		raw = w.sixBits(int(n))
	case head&3 == 2:
		raw = w.lz4(int(n))
	default:
		in.fail("suffixes in an unknown form")
	}
	count := in.vint()
	if count&1 == 0 {
		return codec.NewInput(raw), codec.NewInput(w.copied(int64(count >> 1))), head&4 != 0
	}
	if count>>1 > maxBlockBytes {
		in.fail("%d bytes of lengths", count>>1)
		count = 0
	}
	same, b := make([]byte, count>>1), in.u8()
	for i := range same {
		same[i] = b
	}
	return codec.NewInput(raw), codec.NewInput(same), head&4 != 0
}

// lz4 reads suffixes compressed with LZ4; n is their raw length.
func (w *blockWalker) lz4(n int) []byte {
	in := w.in
	most := min(int64(n)+int64(n)/255+16, in.data.Size()-in.pos)
	at := in.pos
	p := in.take(most)
	if p == nil {
		return nil
	}
	if _, err := lz4.Measure(p, 0, n); err != nil {
		in.pos = at
		in.fail("suffixes: %w", err)
		return nil
	}
	raw := make([]byte, n)
	used, err := lz4.Decode(raw, 0, p)
	if err != nil {
		in.pos = at
		in.fail("suffixes: %w", err)
		return nil
	}
	in.seek(at + int64(used))
	return raw
}

/*
sixBits reads n bytes, most of them lower-case letters, digits and punctuation: n - n/4 bytes hold 6 bits of one character
each; their 2 high bits hold the last n/4 characters. Then VInt exceptions: u8 distance to the previous one, u8 the byte.
*/
func (w *blockWalker) sixBits(n int) []byte {
	in := w.in
	saved := n >> 2
	packed := n - saved
	p := in.take(int64(packed))
	if p == nil {
		return nil
	}
	out := make([]byte, n)
	copy(out, p)
	for i := range saved {
		out[packed+i] = out[i]&0xC0>>2 | out[saved+i]&0xC0>>4 | out[2*saved+i]&0xC0>>6
	}
	for i, b := range out {
		out[i] = b&0x1F | 0x20 | b&0x20<<1
		out[i]--
	}
	at := 0
	for k := in.vint(); k > 0 && in.err == nil; k-- {
		p := in.take(2)
		if p == nil {
			return nil
		}
		if at += int(p[0]); at >= n {
			in.fail("exception at %d of %d bytes", at, n)
			return nil
		}
		out[at] = p[1]
	}
	return out
}

// statistics reads the document frequency and the total frequency of the next term; run is the number of further terms that occur once.
func (w *blockWalker) statistics(in *codec.Input, run int32, t *term) int32 {
	if run > 0 {
		t.documents, t.positions = 1, 1
		return run - 1
	}
	n := in.VInt()
	if w.d.coded {
		if n&1 != 0 {
			t.documents, t.positions = 1, 1
			return int32(uint32(n) >> 1)
		}
		n = int32(uint32(n) >> 1)
	}
	t.documents, t.positions = int64(n), int64(n)
	if w.f.Frequencies {
		t.positions += in.VLong()
	}
	if in.Err() == nil && (t.documents <= 0 || t.positions < t.documents) {
		in.Fail("a term in %d documents at %d positions", t.documents, t.positions)
	}
	return 0
}

// decode reads the offsets of the documents and positions of a term; the first term of a block has no preceding one.
func (w *blockWalker) decode(in *codec.Input, t *term, first bool) {
	if first {
		t.docs, t.pos, t.single = 0, 0, -1
	}
	if w.d.mixed {
		w.decodeMixed(in, t)
		return
	}
	v := in.VLong()
	far := !w.d.longs && v&1 != 0
	switch {
	case w.d.longs:
		t.docs += v
	case !far:
		t.docs += int64(uint64(v) >> 1)
	case t.single < 0 || t.documents != 1:
		in.Fail("a document as a difference from none")
	default:
		t.single += int32(codec.ZigZag64(int64(uint64(v) >> 1)))
	}
	single := func() {
		switch {
		case t.documents != 1:
			t.single = -1
		case !far:
			t.single = in.VInt()
		}
	}
	if !w.d.longs {
		single()
	}
	if w.f.Positions {
		t.pos += in.VLong()
		if w.f.Offsets || w.f.Payloads {
			in.VLong()
		}
	}
	if w.d.longs {
		single()
	}
	if w.f.Positions && t.positions > int64(w.d.block) {
		in.VLong()
	}
	if !w.d.inline && t.documents > int64(w.d.block) {
		in.VLong()
	}
}

// decodeMixed is decode for Lucene before 4.7.
func (w *blockWalker) decodeMixed(in *codec.Input, t *term) {
	if t.single = -1; t.documents == 1 {
		t.single = in.VInt()
	} else {
		t.docs += in.VLong()
	}
	block := int64(w.d.block)
	if w.f.Positions {
		t.pos += in.VLong()
		if t.positions > block {
			in.VLong()
		}
		if (w.f.Offsets || w.f.Payloads) && t.positions >= block {
			in.VLong()
		}
	}
	if t.documents > block {
		in.VLong()
	}
}
