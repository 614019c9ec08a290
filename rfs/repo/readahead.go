package repo

import (
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"
)

// DefaultChunk is how many bytes of a long stream one request reads.
const DefaultChunk = 4 << 20

// ReadAheadOptions bound what is fetched before it is needed.
type ReadAheadOptions struct {
	Chunk  int64 // bytes per request of a long stream; 0 means DefaultChunk
	Depth  int   // requests ahead of the reader, per stream; 0 means 4
	Budget int64 // bytes of memory for all streams together; 0 means 64 MiB
	Pace   Pacer // of the depth; nil: all
}

// Pacer describes how many of n requests may be under way, at least one, while the store is throttling.
type Pacer interface{ Of(n int) int }

// eager asks for all.
type eager struct{}

func (eager) Of(n int) int { return n }

// ReadAhead fetches the next ranges of long streams in parallel, so that one stream is
// not bound to the speed of one connection. What a reader needs now is never delayed by
// the budget: only what lies ahead waits for memory.
type ReadAhead struct {
	Repository
	chunk  int64
	depth  int
	pace   Pacer
	budget *semaphore.Weighted
	pool   sync.Pool // of *[]byte of chunk bytes
}

// NewReadAhead decorates r.
func NewReadAhead(r Repository, o ReadAheadOptions) *ReadAhead {
	if o.Chunk == 0 {
		o.Chunk = DefaultChunk
	}
	if o.Depth == 0 {
		o.Depth = 4
	}
	if o.Budget == 0 {
		o.Budget = 64 << 20
	}
	if o.Pace == nil {
		o.Pace = eager{}
	}
	a := &ReadAhead{Repository: r, chunk: o.Chunk, depth: o.Depth, pace: o.Pace, budget: semaphore.NewWeighted(o.Budget)}
	a.pool.New = func() any { b := make([]byte, o.Chunk); return &b }
	return a
}

// Open streams; a range longer than a chunk is fetched ahead.
func (a *ReadAhead) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if n <= a.chunk {
		return a.Repository.Open(ctx, name, off, n)
	}
	cur, version, err := openVersion(ctx, a.Repository, name, off, a.chunk, "")
	if err != nil {
		return nil, err
	}
	total, ok := Total(cur)
	if !ok {
		total = -1
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &ahead{a: a, ctx: ctx, cancel: cancel, name: name, version: version, total: total, cur: cur, next: off + a.chunk, end: off + n}
	s.fetchMore()
	return s, nil
}

// ahead is a stream of chunks in order: cur is being read, pending are on their way.
type ahead struct {
	a       *ReadAhead
	ctx     context.Context
	cancel  context.CancelFunc
	name    string
	version string
	total   int64
	cur     io.ReadCloser
	pending []*fetch
	next    int64 // first byte that is not asked for yet
	end     int64
	err     error
}

// fetch is one range on its way into memory.
type fetch struct {
	buf  *[]byte
	n    int64
	done chan struct{}
	err  error
}

// Total returns the length of the blob.
func (s *ahead) Total() int64 { return s.total }

// fetchMore asks for ranges ahead as far as depth and memory allow.
func (s *ahead) fetchMore() {
	for len(s.pending) < s.a.pace.Of(s.a.depth) && s.next < s.end && s.a.budget.TryAcquire(s.a.chunk) {
		f := &fetch{buf: s.a.pool.Get().(*[]byte), n: min(s.a.chunk, s.end-s.next), done: make(chan struct{})}
		s.pending = append(s.pending, f)
		go s.fetch(f, s.next)
		s.next += f.n
	}
}

func (s *ahead) fetch(f *fetch, off int64) {
	defer close(f.done)
	rc, _, err := openVersion(s.ctx, s.a.Repository, s.name, off, f.n, s.version)
	if err != nil {
		f.err = err
		return
	}
	defer rc.Close()
	_, f.err = io.ReadFull(rc, (*f.buf)[:f.n])
}

func (s *ahead) Read(p []byte) (int, error) {
	for s.err == nil {
		if s.cur == nil {
			s.err = s.advance()
			continue
		}
		n, err := s.cur.Read(p)
		if errors.Is(err, io.EOF) {
			s.cur.Close()
			s.cur, err = nil, nil
		}
		if err != nil {
			s.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, s.err
}

// advance makes the next chunk the current one; io.EOF after the last.
func (s *ahead) advance() error {
	if len(s.pending) > 0 {
		f := s.pending[0]
		<-f.done
		if f.err != nil {
			return f.err // Close releases the memory
		}
		s.pending = s.pending[1:]
		s.cur = &chunkReader{a: s.a, f: f}
		s.fetchMore()
		return nil
	}
	if s.next == s.end {
		return io.EOF
	}
	n := min(s.a.chunk, s.end-s.next)
	cur, _, err := openVersion(s.ctx, s.a.Repository, s.name, s.next, n, s.version)
	if err != nil {
		return err
	}
	s.cur = cur
	s.next += n
	s.fetchMore()
	return nil
}

// Close ends the requests that are under way and waits for them.
func (s *ahead) Close() error {
	s.cancel()
	for _, f := range s.pending {
		<-f.done
		s.a.giveBack(f)
	}
	s.pending = nil
	if s.err == nil {
		s.err = errors.New("read after close")
	}
	if s.cur == nil {
		return nil
	}
	err := s.cur.Close()
	s.cur = nil
	return err
}

func (a *ReadAhead) giveBack(f *fetch) {
	a.pool.Put(f.buf)
	f.buf = nil
	a.budget.Release(a.chunk)
}

// chunkReader reads a fetched range and releases its memory when it is closed.
type chunkReader struct {
	a   *ReadAhead
	f   *fetch
	off int64
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.off == c.f.n {
		return 0, io.EOF
	}
	n := copy(p, (*c.f.buf)[c.off:c.f.n])
	c.off += int64(n)
	return n, nil
}

func (c *chunkReader) Close() error {
	if c.f.buf != nil {
		c.a.giveBack(c.f)
	}
	return nil
}
