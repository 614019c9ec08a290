package lucene

import (
	"context"
	"math/bits"

	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// deletions locates the files that state which documents of a segment are live, and which are roots.
type deletions struct {
	live  *liveFile // nil: no document was deleted
	soft  *column   // has a value in soft-deleted documents; nil: none
	roots *column   // has a value in roots; nil: all documents are roots, or the roots are unknown
}

func (d deletions) none() bool { return d.live == nil && d.soft == nil && d.roots == nil }

// sets returns the number of sets of documents that are read from the files.
func (d deletions) sets() (n int64) {
	if d.live != nil || d.soft != nil {
		n++
	}
	if d.roots != nil {
		n++
	}
	return n
}

// uncached returns a copy without the cached parts of the files.
func (d deletions) uncached() *deletions {
	if d.live != nil {
		f := *d.live
		f.src = f.src.uncached()
		d.live = &f
	}
	d.soft, d.roots = d.soft.uncached(), d.roots.uncached()
	return &d
}

// marks are the live documents and the roots of a segment: of all documents if the segment holds them, else of the current chunk, read as
// the reader advances. It is not safe for concurrent use.
type marks struct {
	base  int32  // document of the first bit
	live  bitset // nil: all documents are live
	roots bitset // nil: all are roots
	last  int32  // the last root before base; -1: none

	maxDoc             int32
	file               *liveDocs
	softDocs, rootDocs *columns.Docs
	soft, rootsOf      *column
	words              bitset
}

// docsAtATime is the number of documents whose marks are read together while a commit is opened.
const docsAtATime = 1 << 16

// openMarks opens the files of a segment.
func openMarks(ctx context.Context, d deletions, maxDoc int32) (*marks, error) {
	m := &marks{last: -1, maxDoc: maxDoc, soft: d.soft, rootsOf: d.roots}
	var err error
	if d.live != nil {
		if m.file, err = d.live.open(ctx, maxDoc); err != nil {
			return nil, err
		}
	}
	if d.soft != nil {
		if m.softDocs, err = d.soft.entry.NewDocs(d.soft, maxDoc); err != nil {
			return nil, d.soft.wrap(err)
		}
	}
	if d.roots != nil {
		if m.rootDocs, err = d.roots.entry.NewDocs(d.roots, maxDoc); err != nil {
			return nil, d.roots.wrap(err)
		}
	}
	return m, nil
}

// marks returns the marks of the segment for a reader that starts at a document.
func (s *Segment) marks(ctx context.Context) (*marks, error) {
	if s.unheld == nil {
		return &marks{last: -1, live: s.live, roots: s.roots.docs}, nil
	}
	return openMarks(ctx, *s.unheld, int32(s.MaxDoc))
}

// advance moves to the documents [from, to) unless all are held. It returns the number of documents among them that are not hard-deleted; 0
// if all are held.
func (m *marks) advance(ctx context.Context, from, to int32) (hard int, err error) {
	if m.file == nil && m.softDocs == nil && m.rootDocs == nil {
		return 0, nil
	}
	if len(m.roots) > 0 && from&^63 > m.base {
		m.last = m.rootBefore(int32(min(int64(from&^63), int64(m.base)+64*int64(len(m.roots)))))
	}
	m.base = from &^ 63
	n := int((int64(to)+63)/64 - int64(m.base)/64)
	m.live = resize(m.live, n)
	switch {
	case m.file != nil:
		err = m.file.fill(ctx, m.base, m.live)
	default:
		ones(m.live, min(m.maxDoc-m.base, 64*int32(n)))
	}
	hard = m.live.count()
	if err == nil && m.softDocs != nil {
		m.words = resize(m.words, n)
		err = m.soft.wrap(m.softDocs.Fill(ctx, m.base, m.words))
		for i, w := range m.words {
			m.live[i] &^= w
		}
	}
	if err == nil && m.rootDocs != nil {
		m.roots = resize(m.roots, n)
		err = m.rootsOf.wrap(m.rootDocs.Fill(ctx, m.base, m.roots))
	}
	return hard, err
}

// ones sets the first n bits and clears the others.
func ones(words bitset, n int32) {
	for i := range words {
		switch left := n - int32(i)<<6; {
		case left >= 64:
			words[i] = ^uint64(0)
		case left > 0:
			words[i] = 1<<left - 1
		default:
			words[i] = 0
		}
	}
}

func resize(b bitset, n int) bitset {
	if cap(b) < n {
		return make(bitset, n)
	}
	return b[:n]
}

// isLive reports whether a document is live.
func (m *marks) isLive(doc int32) bool { return m.live == nil || m.live.get(doc-m.base) }

// anyLive reports whether one of the documents [from, to) is live.
func (m *marks) anyLive(from, to int32) bool {
	if m.live == nil {
		return from < to
	}
	return m.live.any(from-m.base, to-m.base)
}

// isRoot reports whether a document is a root. Before base only the last root is known; callers ask for a document before base only if no
// root lies between it and base.
func (m *marks) isRoot(doc int32) bool {
	switch {
	case m.roots == nil:
		return true
	case doc < m.base:
		return doc == m.last
	}
	return m.roots.get(doc - m.base)
}

// rootBefore returns the last root before a document, or -1.
func (m *marks) rootBefore(doc int32) int32 {
	k := doc - m.base
	for i := (k - 1) >> 6; k > 0 && i >= 0; i-- {
		w := m.roots[i]
		if i == k>>6 {
			w &= 1<<(k&63) - 1
		}
		if w != 0 {
			return m.base + i<<6 + int32(63-bits.LeadingZeros64(w))
		}
	}
	return m.last
}

// firstAfterRoot returns the first document after the last root before doc, or 0 if no root precedes it.
func (s *Segment) firstAfterRoot(ctx context.Context, doc int32) (int32, error) {
	m, err := s.marks(ctx)
	if err != nil || s.unheld == nil {
		for err == nil && doc > 0 && !m.isRoot(doc-1) {
			doc--
		}
		return doc, err
	}
	for doc > 0 && s.unheld.roots != nil {
		from := (doc - 1) &^ (docsAtATime - 1)
		if _, err := m.advance(ctx, from, doc); err != nil {
			return 0, err
		}
		if m.last = -1; m.rootBefore(doc) >= 0 {
			return m.rootBefore(doc) + 1, nil
		}
		doc = from
	}
	return doc, nil
}
