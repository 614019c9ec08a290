package shards

import (
	"context"
	"fmt"
	"runtime"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

const (
	// longSource is the length in bytes above which sources are counted; the memory of shorter ones is bounded by the size of bodies.
	longSource = 4 << 20
	// DefaultMaxDocument is the default limit of sources in bytes: the default http.max_content_length of a cluster, above which none can be
	// indexed.
	DefaultMaxDocument = 100 << 20
	// forms is the maximum number of copies of a long source in addition to its raw bytes: the source and its converted form (one line of
	// JSON, or the result of rules or a join field), the body, and the compressed body.
	forms = 3
)

// collected is the memory in bytes before whose use the garbage collector runs. Otherwise the runtime would still hold the buffers of
// earlier documents. A run takes some milliseconds; such a document takes a hundred times as long.
const collected = 64 << 20

// allowance bounds the memory of a job's long documents. It belongs to the goroutine of the job; it is a lucene.Memory. The nil allowance
// has no bound.
type allowance struct {
	budget *budget.Budget
	// most returns the maximum request body of the destination in bytes; 0: unknown. nil: no limit.
	most    func(ctx context.Context) int64
	longest int64 // limit of sources in bytes; 0: DefaultMaxDocument
	edits   bool  // rules may shorten documents

	asked bool
	limit int64 // last result of most

	claimed int64           // bytes reserved for the current document
	stored  int64           // part of claimed for the raw bytes of its chunk
	raw     *budget.Share   // share of the raw bytes
	made    *budget.Share   // share of its copies before it is a body
	body    *budget.Share   // share of its body until handOver
	sent    []*budget.Share // shares after handOver
}

// request returns the maximum request body of the destination in bytes; 0: unknown.
func (m *allowance) request(ctx context.Context) int64 {
	if !m.asked && m.most != nil {
		m.asked, m.limit = true, m.most(ctx)
	}
	return m.limit
}

// maxDocument returns the limit of sources in bytes, for any destination.
func (m *allowance) maxDocument() int64 {
	if m.longest > 0 {
		return m.longest
	}
	return DefaultMaxDocument
}

// MaxSource returns the maximum length in bytes of a source that is read. It exceeds the request limit, because the document becomes
// shorter when line breaks and comments are removed.
func (m *allowance) MaxSource(ctx context.Context) (int64, error) {
	if n := m.request(ctx); n > 0 && !m.edits {
		return min(n+n/8, m.maxDocument()), nil
	}
	return m.maxDocument(), ctx.Err()
}

// bound returns the limit that a source exceeds, and how to raise it.
func (m *allowance) bound() string {
	if n := m.limit; n > 0 && !m.edits && n+n/8 < m.maxDocument() {
		return fmt.Sprintf("the target takes requests of %d bytes (http.max_content_length)", n)
	}
	return fmt.Sprintf("at most %d are read: a larger --max-document-size reads more, in about four times that memory", m.maxDocument())
}

// Hold blocks until memory is available for raw bytes and for the copies of a source of source bytes.
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

// convert blocks until memory is available to convert the current source into size bytes. It reserves the raw bytes again: as they were
// within the budget before, all goroutines that wait here together hold no more than the budget.
func (m *allowance) convert(ctx context.Context, raw, size int64) error {
	if raw+forms*size <= m.claimed {
		return nil
	}
	return m.claim(ctx, raw, size)
}

// widen blocks until memory is available to convert the current document into at most size bytes.
func (m *allowance) widen(ctx context.Context, size int64) error {
	return m.convert(ctx, m.stored, size)
}

// handOver returns a function that releases the memory of the current document's body. It releases the memory of the other copies
// immediately.
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

// close releases all memory at the end of the job.
func (m *allowance) close() {
	m.drop()
	for _, s := range m.sent {
		s.Release()
	}
	m.sent = nil
}
