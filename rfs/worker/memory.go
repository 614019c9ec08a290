package worker

import (
	"context"

	"github.com/rfsd/rfsd/rfs/budget"
)

const (
	// longSource is the length beyond which a source is counted, in bytes: shorter ones are bounded by the size of bodies.
	longSource = 4 << 20
	// anySource is the longest source that is read when the destination does not tell what it takes, or when rules may
	// shorten it, in bytes.
	anySource = 512 << 20
)

// allowance bounds what the long documents of a job hold. It belongs to the goroutine of the job; it is a lucene.Memory.
type allowance struct {
	budget *budget.Budget
	// most returns the longest body of a request that the destination takes, in bytes; 0: not known. nil: any.
	most  func(ctx context.Context) int64
	edits bool // rules may shorten documents

	asked bool
	limit int64 // what most returned

	body     *budget.Share   // of the long document at hand, until it is handed over
	expanded *budget.Share   // of its decompressed form
	sent     []*budget.Share // handed over
}

// request returns the longest body of a request that the destination takes, in bytes; 0: not known.
func (m *allowance) request(ctx context.Context) int64 {
	if !m.asked && m.most != nil {
		m.asked, m.limit = true, m.most(ctx)
	}
	return m.limit
}

// MaxSource returns the length of the longest source that is worth reading. Line breaks and comments that are left out make
// a source shorter, by a part of it.
func (m *allowance) MaxSource(ctx context.Context) (int64, error) {
	if n := m.request(ctx); n > 0 && !m.edits {
		return min(n+n/8, anySource), nil
	}
	return anySource, ctx.Err()
}

// Hold blocks until raw bytes, and a body of source bytes with its compressed form, may be held.
func (m *allowance) Hold(ctx context.Context, raw, source int64) (func(), error) {
	m.drop()
	all, err := m.budget.Take(ctx, raw+2*source)
	if err != nil {
		return nil, err
	}
	m.body = all.Split(2 * source)
	return all.Release, nil
}

// expand blocks until a source may be held that decompresses to size bytes.
func (m *allowance) expand(ctx context.Context, size int64) error {
	m.drop()
	all, err := m.budget.Take(ctx, 3*size)
	if err != nil {
		return err
	}
	m.body, m.expanded = all.Split(2*size), all
	return nil
}

// handOver returns what gives back the memory of the body of the document at hand.
func (m *allowance) handOver() func() {
	s := m.body
	m.body, m.sent = nil, append(m.sent, s)
	return s.Release
}

// drop gives back what the document before has taken.
func (m *allowance) drop() {
	m.body.Release()
	m.expanded.Release()
	m.body, m.expanded = nil, nil
}

// close gives back everything; the job has ended.
func (m *allowance) close() {
	m.drop()
	for _, s := range m.sent {
		s.Release()
	}
	m.sent = nil
}
