package postings

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// ErrLong reports a document with more terms than the memory limit allows.
var ErrLong = errors.New("a document has more terms than the bound")

// Token is a term of a document at a position. If a field has no positions, Position is the term's frequency in the document.
type Token struct {
	Term     []byte
	Position int32
}

// Text returns the terms of a field by document, fastest in ascending order. It holds a range of documents, as long as the memory limit
// allows, and visits all terms of the field once per range. It reads the list of a term with several blocks from where it stopped for the
// previous range, for a limited number of such terms. It belongs to one goroutine.
type Text struct {
	d      *Dictionary
	f      *field
	maxDoc int32
	most   int64 // bytes

	from, to int32 // the documents that are held
	found    []occurrence
	terms    []byte
	tokens   []Token
	mark     int // offset in terms of the term being read

	marks [][2]mark // by term with several blocks, in order: at the end of the last range, and at its start
}

// occurrence is a term in a document at a position.
type occurrence struct {
	doc, position int32
	term          int64 // offset in terms << 16 | length
}

// occurrenceSize is the size of an occurrence, in bytes.
const occurrenceSize = 16

// NewText returns the Text of a field in a segment of maxDoc documents, or nil if no document has a term. Nothing is read before the first
// Tokens. It holds about most bytes; a document that needs more is ErrLong.
func (d *Dictionary) NewText(number, maxDoc int32, most int64) *Text {
	f := d.fields[number]
	if f == nil {
		return nil
	}
	return &Text{d: d, f: f, maxDoc: maxDoc, most: most - most/4}
}

// Tokens returns the terms of a document ordered by position, and by bytes within one position. The result is valid until the next call.
func (t *Text) Tokens(ctx context.Context, doc int32) ([]Token, error) {
	if doc < t.from || doc >= t.to {
		if err := t.read(ctx, doc); err != nil {
			t.from, t.to = 0, 0
			return nil, err
		}
	}
	at, _ := slices.BinarySearchFunc(t.found, doc, func(o occurrence, doc int32) int { return cmp.Compare(o.doc, doc) })
	t.tokens = t.tokens[:0]
	for ; at < len(t.found) && t.found[at].doc == doc; at++ {
		o := t.found[at]
		place := o.term >> 16
		t.tokens = append(t.tokens, Token{t.terms[place : place+o.term&0xFFFF], o.position})
	}
	return t.tokens, nil
}

// read reads the terms of the document from and of as many following documents as fit.
func (t *Text) read(ctx context.Context, from int32) error {
	width := t.to - t.from
	t.from, t.to, t.found, t.terms = from, t.maxDoc, t.found[:0], t.terms[:0]
	if width > 0 && width < (t.maxDoc-from)/2 {
		t.to = from + 2*width
	}
	l, err := t.d.lists(ctx, t.f)
	if err != nil {
		return err
	}
	long := 0 // terms with several blocks
	err = t.d.walk(ctx, t.f, func(text []byte, x *term) error {
		t.mark = len(t.terms)
		t.terms = append(t.terms, text...)
		found := len(t.found)
		var m *[2]mark
		if x.documents > int64(t.d.block) {
			m = t.marksOf(long)
			long++
		}
		next, err := l.each(x, before(m, from), t.from, &t.to, func(doc, position int32) error {
			if doc >= t.to { // narrow dropped it while its positions were read
				return nil
			}
			t.found = append(t.found, occurrence{doc, position, int64(t.mark)<<16 | int64(len(text))})
			if t.size() <= t.most {
				return nil
			}
			return t.narrow(text)
		})
		if m != nil {
			*m = [2]mark{next, before(m, from)}
		}
		if len(t.found) == found {
			t.terms = t.terms[:t.mark]
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(t.found, func(a, b occurrence) int {
		if c := cmp.Compare(a.doc, b.doc); c != 0 {
			return c
		}
		if c := cmp.Compare(a.position, b.position); c != 0 {
			return c
		}
		return slices.Compare(t.terms[a.term>>16:a.term>>16+a.term&0xFFFF], t.terms[b.term>>16:b.term>>16+b.term&0xFFFF])
	})
	return nil
}

// marksOf returns the marks of term i with several blocks; nil for terms beyond the limit, whose lists are read from their start.
func (t *Text) marksOf(i int) *[2]mark {
	if i == len(t.marks) && int64(i) < t.most/3/(2*markSize) { // a quarter of the memory limit
		t.marks = append(t.marks, [2]mark{})
	}
	if i >= len(t.marks) {
		return nil
	}
	return &t.marks[i]
}

// before returns the latest of the marks that is before the document from, or the start of the list.
func before(marks *[2]mark, from int32) mark {
	if marks == nil {
		return mark{}
	}
	for _, m := range marks {
		if m.doc < int64(from) {
			return m
		}
	}
	return mark{}
}

func (t *Text) size() int64 { return int64(len(t.found))*occurrenceSize + int64(len(t.terms)) }

// narrow halves the range of documents until it takes at most half of the memory limit. text is the term being read.
func (t *Text) narrow(text []byte) error {
	for t.size() > t.most/2 {
		if t.to-t.from <= 1 {
			if t.size() > t.most {
				return ErrLong
			}
			return nil
		}
		t.to = t.from + (t.to-t.from)/2
		t.found = slices.DeleteFunc(t.found, func(o occurrence) bool { return o.doc >= t.to })
		t.compact(text)
	}
	return nil
}

// compact drops the terms that no held document has, except for text, the term being read.
func (t *Text) compact(text []byte) {
	text = slices.Clone(text)
	end, was, is := 0, int64(-1), 0
	for i, o := range t.found { // the occurrences of a term are adjacent, and offsets ascend
		place, n := o.term>>16, int(o.term&0xFFFF)
		if place != was {
			was, is = place, end
			end += copy(t.terms[end:], t.terms[place:int(place)+n])
		}
		t.found[i].term = int64(is)<<16 | int64(n)
	}
	if was == int64(t.mark) {
		t.mark, t.terms = is, t.terms[:end]
		return
	}
	t.mark, t.terms = end, append(t.terms[:end], text...)
}
