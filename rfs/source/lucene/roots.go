package lucene

import (
	"context"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// seqNo is the column of the sequence numbers. Since Elasticsearch 6.0 every root document has a value; nested documents carry the root's.
const seqNo = "_seq_no"

// ID returns the id of the segment, 16 random bytes that Lucene assigns when it writes a segment; "" before Lucene 5.0. Segments with the
// same id have the same documents and differ at most in deletions and updated columns.
func (s *Segment) ID() string { return s.id }

// Number identifies a version of a document within its shard (Elasticsearch, class SequenceNumbers).
type Number struct {
	Seq  int64 // the _seq_no of the operation that wrote it, from 0 on; -2: it was written before Elasticsearch 6.0
	Term int64 // the _primary_term of the primary that assigned the number
}

// Roots reads the live root documents of a segment in ascending order, without their stored fields. It belongs to one goroutine.
type Roots struct {
	seg       *Segment
	marks     *marks
	seq, term *Column
	doc, end  int32 // the next document; the end of the documents whose marks were read
}

// Roots returns a reader of the live root documents of a segment. With numbers it opens the columns that Number reads; a segment with live
// documents that lacks them is fault.ErrUnsupported. It verifies their file only up to 64 KiB: the file holds the columns of all fields and
// can be a hundred times as long as these two.
func (s *Segment) Roots(ctx context.Context, numbers bool) (*Roots, error) {
	m, err := s.marks(ctx)
	if err != nil {
		return nil, err
	}
	r := &Roots{seg: s, marks: m}
	if !numbers || s.LiveCount == 0 {
		return r, nil
	}
	fields, err := s.readFieldInfos(ctx, nil)
	if err != nil {
		return nil, err
	}
	metas := columnMetas{seg: s, fields: fields, only: []string{seqNo, primaryTerm}}
	if r.seq, err = s.openNumbers(ctx, &metas, seqNo); err != nil {
		return nil, err
	}
	if r.term, err = s.openNumbers(ctx, &metas, primaryTerm); err != nil {
		return nil, err
	}
	return r, nil
}

// openNumbers opens a numeric column that every live root document needs.
func (s *Segment) openNumbers(ctx context.Context, metas *columnMetas, name string) (*Column, error) {
	f := metas.fields.numeric(name)
	if f == nil {
		return nil, fmt.Errorf("segment %s has no column %s: %w", s.Name, name, fault.ErrUnsupported)
	}
	c, err := metas.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, unknownColumns(name, f.attrs[attrFormat])
	}
	if err := c.verifyShort(ctx); err != nil {
		return nil, err
	}
	values, err := c.entry.NewReader(c.columnData, int32(s.MaxDoc))
	if err != nil {
		return nil, c.wrap(err)
	}
	return &Column{c, values}, nil
}

// Next returns the number of the next live root document within the segment, or io.EOF after the last.
func (r *Roots) Next(ctx context.Context) (doc int32, err error) {
	for last := int32(r.seg.MaxDoc); r.doc < last; {
		if r.doc >= r.end {
			r.end = int32(min(int64(r.doc)+docsAtATime, int64(last)))
			if _, err := r.marks.advance(ctx, r.doc, r.end); err != nil {
				return 0, err
			}
		}
		doc := r.doc
		r.doc++
		if r.marks.isLive(doc) && r.marks.isRoot(doc) {
			return doc, nil
		}
	}
	return 0, io.EOF
}

// Number returns the number of the document that Next returned last. A document without one is fault.ErrUnsupported.
func (r *Roots) Number(ctx context.Context) (n Number, err error) {
	if n.Seq, err = r.value(ctx, r.seq, seqNo); err != nil {
		return n, err
	}
	n.Term, err = r.value(ctx, r.term, primaryTerm)
	return n, err
}

func (r *Roots) value(ctx context.Context, c *Column, name string) (int64, error) {
	n, err := c.Advance(ctx, r.doc-1)
	if err != nil {
		return 0, err
	}
	if n != 1 {
		return 0, fmt.Errorf("document %d of segment %s has %d values in column %s: %w", r.doc-1, r.seg.Name, n, name, fault.ErrUnsupported)
	}
	return c.Number(ctx, 0)
}
