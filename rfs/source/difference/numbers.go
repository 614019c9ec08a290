package difference

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

const (
	// numbersPerByte is the quantity of numbers of a pass per byte of memory: their bits take three quarters of it.
	numbersPerByte = 3
	// blockNumbers is the quantity of consecutive numbers that usually were assigned under one primary term.
	blockNumbers = 4096
	// termRoom is the divisor of the memory of a pass that gives the share for blocks of several primary terms, and leastTermRoom the
	// minimum of that share, in bytes.
	termRoom      = 4
	leastTermRoom = 1 << 20
	// mostTerms bounds the primary terms of a pass.
	mostTerms = 254
	// severalTerms marks a block whose numbers were assigned under several terms.
	severalTerms = 255
)

// pass is one range of numbers, [first, end), among the numbers that the first commit can have. The second commit is read first: two bits
// are held for each number, and the numbers that the first commit also has are then removed. So each column is read once.
type pass struct {
	first, end int64
	next       int64          // the lowest number of a document that is at least end
	second     Ordinals       // only the second commit has the number, as far as is known
	seen       Ordinals       // the first commit has it
	blocks     []byte         // by block: the term of its numbers in the second commit, or severalTerms; 0: no numbers
	several    map[int][]byte // terms by number, of blocks with several
	terms      map[int64]byte
	room       int64 // bytes for more of several
}

// newPass returns the pass of the numbers from first on, reusing the memory of the preceding pass.
func (r *Reader) newPass(first int64, before *pass) *pass {
	p := &pass{first: first, end: first + min(r.memory*numbersPerByte, r.top[0]-first+1), next: math.MaxInt64}
	if before == nil {
		n := max(p.end-first, 0)
		p.second, p.seen, p.blocks = newOrdinals(n), newOrdinals(n), make([]byte, (n+blockNumbers-1)/blockNumbers)
	} else {
		p.second, p.seen, p.blocks = before.second, before.seen, before.blocks
		clear(p.second)
		clear(p.seen)
		clear(p.blocks)
	}
	p.several, p.terms, p.room = map[int][]byte{}, map[int64]byte{}, max(r.memory/termRoom, leastTermRoom)
	return p
}

// readNumbers compares the numbers of the segments that only one of the commits has. Numbers above the highest number of the first commit
// are new without a comparison: the first pass visits them.
func (r *Reader) readNumbers(ctx context.Context, first int64, visit func(Change) error, passed func(next int64) error, n *Counts) error {
	var p *pass
	for at := first; ; {
		p = r.newPass(at, p)
		if err := r.readPass(ctx, p, visit, n); err != nil {
			return err
		}
		if at = p.next; at > r.top[0] {
			return nil
		}
		if err := passed(at); err != nil {
			return err
		}
	}
}

func (r *Reader) readPass(ctx context.Context, p *pass, visit func(Change) error, n *Counts) error {
	left := int64(0) // numbers of second
	added := func(ordinal int64) error {
		n.New++
		return visit(Change{Ordinal: ordinal})
	}
	err := r.each(ctx, r.to, 1, p, func(ordinal int64, number lucene.Number) error {
		if number.Seq > r.top[0] {
			if p.first > 0 {
				return nil // the first pass has visited it
			}
			return added(ordinal)
		}
		left++
		return p.add(number)
	})
	if err != nil {
		return err
	}
	err = r.each(ctx, r.from, 0, p, func(ordinal int64, number lucene.Number) error {
		both, err := p.take(number)
		switch {
		case err != nil:
			return err
		case both:
			left--
			n.Unchanged++
			return nil
		}
		n.Gone++
		return visit(Change{Gone: true, Ordinal: ordinal})
	})
	if err != nil || left == 0 {
		return err
	}
	return r.each(ctx, r.to, 1, p, func(ordinal int64, number lucene.Number) error {
		if number.Seq > r.top[0] || !p.second.has(number.Seq-p.first) {
			return nil
		}
		return added(ordinal)
	})
}

// each calls f for the live root documents of a commit whose numbers are in a pass, or above the numbers of the first commit, in segments
// that the other commit lacks.
func (r *Reader) each(ctx context.Context, c *lucene.Commit, which int, p *pass, f func(ordinal int64, number lucene.Number) error) error {
	top := r.top[which]
	if p.first > top {
		return nil // no document of the commit has such a number
	}
	for s := range r.changed(c) {
		if err := ctx.Err(); err != nil {
			return err
		}
		roots, err := s.Roots(ctx, true)
		if errors.Is(err, fault.ErrUnsupported) {
			return &Whole{NoNumbers}
		}
		if err != nil {
			return err
		}
		for {
			doc, err := roots.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			number, ok, err := numberOf(ctx, roots)
			switch {
			case err != nil:
				return err
			case !ok:
				return &Whole{NoNumbers}
			case number.Seq > top:
				return &Whole{Beyond}
			case number.Seq >= p.end && number.Seq <= r.top[0]:
				p.next = min(p.next, number.Seq)
			case number.Seq >= p.first:
				if err := f(s.Base+int64(doc), number); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// numberOf returns the number of the document that roots returned last; ok is false if it has none.
func numberOf(ctx context.Context, roots *lucene.Roots) (n lucene.Number, ok bool, err error) {
	n, err = roots.Number(ctx)
	if errors.Is(err, fault.ErrUnsupported) {
		return n, false, nil
	}
	return n, err == nil && n.Seq >= 0, err
}

// add adds a number of the second commit.
func (p *pass) add(n lucene.Number) error {
	at := n.Seq - p.first
	if p.second.has(at) {
		return &Whole{NotUnique}
	}
	p.second.add(at)
	term, err := p.term(n.Term)
	if err != nil {
		return err
	}
	block := int(at / blockNumbers)
	switch was := p.blocks[block]; was {
	case term:
		return nil
	case 0:
		p.blocks[block] = term
		return nil
	case severalTerms:
	default:
		if p.room -= blockNumbers; p.room < 0 {
			return &Whole{ManyTerms}
		}
		terms := make([]byte, blockNumbers)
		for i := range terms {
			terms[i] = was
		}
		p.blocks[block], p.several[block] = severalTerms, terms
	}
	p.several[block][at%blockNumbers] = term
	return nil
}

// take reports whether the second commit also has a number of the first, and removes it in that case.
func (p *pass) take(n lucene.Number) (both bool, err error) {
	at := n.Seq - p.first
	if p.seen.has(at) {
		return false, &Whole{NotUnique}
	}
	p.seen.add(at)
	if !p.second.has(at) {
		return false, nil
	}
	block := int(at / blockNumbers)
	term := p.blocks[block]
	if term == severalTerms {
		term = p.several[block][at%blockNumbers]
	}
	if p.terms[n.Term] != term {
		return false, &Whole{NotUnique} // under two terms
	}
	p.second.remove(at)
	return true, nil
}

// term returns the byte that represents a primary term.
func (p *pass) term(of int64) (byte, error) {
	b, ok := p.terms[of]
	if !ok {
		if len(p.terms) == mostTerms {
			return 0, &Whole{ManyTerms}
		}
		b = byte(len(p.terms) + 1)
		p.terms[of] = b
	}
	return b, nil
}
