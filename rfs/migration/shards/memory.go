package shards

import (
	"context"
	"fmt"
	"runtime"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

const (
	// longSource is the length beyond which a source is counted, in bytes: shorter ones are bounded by the size of bodies.
	longSource = 4 << 20
	// DefaultMaxDocument is the longest source that is read unless another bound is set, in bytes: http.max_content_length
	// of a cluster that was not configured otherwise, so that none wrote more.
	DefaultMaxDocument = 100 << 20
	// forms is the largest number of copies of a long source in addition to its raw bytes: as what it is made of and what is made of it
	// (one line of JSON, or what rules or a join field change), as a body, and as a compressed body.
	forms = 3
)

// collected is the memory, in bytes, before whose use garbage is collected: the runtime would hold what the documents before were
// made of beside it, and begin to collect it too late. That takes some milliseconds, such a document a hundred times that.
const collected = 64 << 20

// allowance bounds what the long documents of a job hold. It belongs to the goroutine of the job; it is a lucene.Memory.
// The nil allowance bounds nothing.
type allowance struct {
	budget *budget.Budget
	// most returns the longest body of a request that the destination takes, in bytes; 0: unknown. nil: any.
	most    func(ctx context.Context) int64
	longest int64 // source that is read, in bytes; 0: DefaultMaxDocument
	edits   bool  // rules may shorten documents

	asked bool
	limit int64 // what most returned

	claimed int64           // bytes that were asked for the document at hand
	stored  int64           // of them for the raw bytes of its chunk
	raw     *budget.Share   // of the raw bytes of its chunk
	made    *budget.Share   // of its forms before it is a body
	body    *budget.Share   // of its body, until it is handed over
	sent    []*budget.Share // handed over
}

// request returns the longest body of a request that the destination takes, in bytes; 0: unknown.
func (m *allowance) request(ctx context.Context) int64 {
	if !m.asked && m.most != nil {
		m.asked, m.limit = true, m.most(ctx)
	}
	return m.limit
}

// maxDocument returns the longest source that is read, for any destination.
func (m *allowance) maxDocument() int64 {
	if m.longest > 0 {
		return m.longest
	}
	return DefaultMaxDocument
}

// MaxSource returns the length of the longest source that is worth reading. Line breaks and comments that are left out make
// a source shorter, by a part of it.
func (m *allowance) MaxSource(ctx context.Context) (int64, error) {
	if n := m.request(ctx); n > 0 && !m.edits {
		return min(n+n/8, m.maxDocument()), nil
	}
	return m.maxDocument(), ctx.Err()
}

// bound states which bound a source exceeds, and what lifts it.
func (m *allowance) bound() string {
	if n := m.limit; n > 0 && !m.edits && n+n/8 < m.maxDocument() {
		return fmt.Sprintf("the target takes requests of %d bytes (http.max_content_length)", n)
	}
	return fmt.Sprintf("at most %d are read: a larger --max-document-size reads more, in about four times that memory", m.maxDocument())
}

// Hold blocks until raw bytes, and the forms that a source of source bytes takes, may be held.
func (m *allowance) Hold(ctx context.Context, raw, source int64) (func(), error) {
	if err := m.claim(ctx, raw, source); err != nil {
		return nil, err
	}
	return m.raw.Release, nil
}

func (m *allowance) claim(ctx context.Context, raw, source int64) error {
	m.drop()
	all, err := m.budget.Take(ctx, raw+forms*source)
	if err != nil {
		return err
	}
	if raw+forms*source >= collected {
		runtime.GC()
	}
	m.claimed, m.stored = raw+forms*source, raw
	m.body = all.Split(2 * source)
	m.raw = all.Split(raw)
	m.made = all
	return nil
}

// convert blocks until the source at hand may be held in another form of size bytes. Its raw bytes are counted anew: of
// those who wait here, their memory was within the budget when they started.
func (m *allowance) convert(ctx context.Context, raw, size int64) error {
	if raw+forms*size <= m.claimed {
		return nil
	}
	return m.claim(ctx, raw, size)
}

// widen blocks until a source of at most size bytes may be made of the document at hand.
func (m *allowance) widen(ctx context.Context, size int64) error {
	return m.convert(ctx, m.stored, size)
}

// handOver returns a function that releases the memory of the current document's body. Its other forms are released immediately.
func (m *allowance) handOver() func() {
	s := m.body
	m.body, m.sent = nil, append(m.sent, s)
	m.drop()
	return s.Release
}

// drop releases the memory of the previous document.
func (m *allowance) drop() {
	for _, s := range []*budget.Share{m.raw, m.made, m.body} {
		s.Release()
	}
	m.raw, m.made, m.body, m.claimed, m.stored = nil, nil, nil, 0, 0
}

// close releases everything; the job has ended.
func (m *allowance) close() {
	m.drop()
	for _, s := range m.sent {
		s.Release()
	}
	m.sent = nil
}
