package repo

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// DefaultChunk is the number of bytes that one request reads of a long stream.
const DefaultChunk = 4 << 20

// ReadAheadOptions limit the bytes that are fetched before they are needed.
type ReadAheadOptions struct {
	Chunk  int64 // bytes per request of a long stream; 0 means DefaultChunk
	Depth  int   // initial requests ahead of the reader, per stream; 0 means 4
	Budget int64 // bytes of memory for all streams together; 0 means 64 MiB
	Pace   Pacer // limits the requests ahead; nil: no limit
}

// Pacer returns how many of n requests may be in progress, at least one, while the store is throttling.
type Pacer interface{ Of(n int) int }

// eager is the Pacer without a limit.
type eager struct{}

func (eager) Of(n int) int { return n }

// ReadAhead fetches the next ranges of long streams in parallel, so that one stream is not limited to the speed of one connection. The
// budget never delays what a reader needs now: only ranges ahead of it wait for memory.
//
// The number of requests ahead of a reader follows bandwidth and delay. It starts, at the first stream, at the product of firstRate and the
// least delay of the short requests before it. It grows by half whenever a reader had to wait for the next range, and shrinks by one
// whenever all requested ranges had arrived before they were needed. Streams that are being read share the budget; streams that were opened
// ahead get the rest.
type ReadAhead struct {
	Repository
	chunk  int64
	depth  int // the minimum
	pace   Pacer
	budget *semaphore.Weighted
	load   *load
}

// firstRate is the throughput that the first stream of a process is prepared for, in bytes per second.
const firstRate = 1 << 30

// load is shared by the streams of one budget.
type load struct {
	delay  atomic.Int64 // minimum time to the first byte of a short request, in ns; 0: unknown
	first  sync.Once    // the first stream sets deeper by delay
	chunks int64        // number of chunks that fit into the budget
	deeper atomic.Int64 // requests ahead beyond the depth of the options

	mu      sync.Mutex
	streams []*ahead  // open streams, in the order in which they were opened
	free    []*[]byte // chunks of memory that their streams returned; the chunks of the last stream go to pool
	pool    sync.Pool // of *[]byte of chunk bytes
}

// add adds a stream and requests its first ranges.
func (l *load) add(s *ahead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
	l.fill()
}

// end removes a stream and returns its ranges that were not read.
func (l *load) end(s *ahead) []*fetch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = slices.DeleteFunc(l.streams, func(o *ahead) bool { return o == s })
	pending := s.pending
	s.pending = nil
	l.forget()
	return pending
}

// forget returns memory that no stream needs any more to the pool. The mutex must be held.
func (l *load) forget() {
	if len(l.streams) > 0 {
		return
	}
	for _, b := range l.free {
		l.pool.Put(b)
	}
	l.free = nil
}

// take returns memory for a chunk. The garbage collector empties a pool, so memory that streams exchange is kept outside it. The mutex must
// be held.
func (l *load) take() *[]byte {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return l.pool.Get().(*[]byte)
}

// giveBack keeps the memory of a range that was read for the next ranges.
func (l *load) giveBack(a *ReadAhead, f *fetch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, f.buf)
	f.buf = nil
	a.budget.Release(a.chunk)
	l.fill()
	l.forget()
}

// fill requests ranges as far as depth and memory allow. Streams that are being read share the budget; the rest, which they do not need,
// goes to the streams that were opened ahead, in order, so that the next segment continues where the last one ended. The mutex must be
// held.
func (l *load) fill() {
	readers := 0
	for _, s := range l.streams {
		if s.reading {
			readers++
		}
	}
	share, room := int(l.chunks)/max(readers, 1), int(l.chunks)
	for _, s := range l.streams {
		n := s.a.depth + int(l.deeper.Load())
		switch {
		case !s.reading:
		case s.next < s.end:
			s.ask(min(n, share))
			room -= min(n, share)
		default:
			room -= len(s.pending)
		}
	}
	for _, s := range l.streams {
		if !s.reading {
			if n := min(s.a.depth+int(l.deeper.Load()), room); n > 0 {
				s.ask(n)
			}
			room -= len(s.pending)
		}
	}
}

// answered records the time to the first byte of a request.
func (l *load) answered(took time.Duration) {
	for d := l.delay.Load(); (d == 0 || int64(took) < d) && !l.delay.CompareAndSwap(d, int64(took)); d = l.delay.Load() {
	}
}

// NewReadAhead returns a decorator of r that reads ahead.
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
	a := &ReadAhead{Repository: r, chunk: o.Chunk, depth: o.Depth, pace: o.Pace, budget: semaphore.NewWeighted(o.Budget), load: &load{chunks: o.Budget / o.Chunk}}
	a.load.pool.New = func() any { b := make([]byte, o.Chunk); return &b }
	return a
}

// Open streams a part of a blob; a range longer than a chunk is fetched ahead.
func (a *ReadAhead) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if n <= a.chunk {
		begin := time.Now()
		rc, err := a.Repository.Open(ctx, name, off, n)
		if err == nil {
			a.load.answered(time.Since(begin))
		}
		return rc, err
	}
	a.load.first.Do(func() {
		delay := min(time.Duration(a.load.delay.Load()), time.Second)
		a.deepen(int64(delay.Seconds()*firstRate)/a.chunk - int64(a.depth))
	})
	ctx, cancel := context.WithCancel(ctx)
	s := &ahead{a: a, ctx: ctx, cancel: cancel, name: name, total: -1, next: off + a.chunk, end: off + n}
	a.load.add(s)
	cur, version, err := openVersion(ctx, a.Repository, name, off, a.chunk, "")
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	if total, ok := Total(cur); ok {
		s.total = total
	}
	a.load.mu.Lock()
	defer a.load.mu.Unlock()
	s.cur, s.version = cur, version
	return s, nil
}

// ahead is a stream of chunks in order: cur is being read, pending are being fetched.
type ahead struct {
	a      *ReadAhead
	ctx    context.Context
	cancel context.CancelFunc
	name   string
	total  int64
	cur    io.ReadCloser
	first  int // ranges that were requested before the stream was read, and not read yet
	err    error

	// Guarded by load.mu.
	version string // of the first chunk; "" before it is known, and if the store states none
	reading bool   // its first chunk was read; else it may be a stream that was opened ahead
	pending []*fetch
	next    int64 // first byte that is not requested yet
	end     int64
}

// fetch is one range that is being fetched into memory.
type fetch struct {
	buf     *[]byte
	off, n  int64
	done    chan struct{}
	version string
	err     error
}

// Total returns the length of the blob.
func (s *ahead) Total() int64 { return s.total }

// ask requests up to n ranges, as far as there is memory. The mutex of load must be held.
func (s *ahead) ask(n int) {
	for len(s.pending) < s.a.pace.Of(max(n, 1)) && s.next < s.end && s.a.budget.TryAcquire(s.a.chunk) {
		f := &fetch{buf: s.a.load.take(), off: s.next, n: min(s.a.chunk, s.end-s.next), done: make(chan struct{}), version: s.version}
		s.pending = append(s.pending, f)
		go s.fetch(f)
		s.next += f.n
	}
}

// deepen increases the number of requests ahead, as far as the budget allows.
func (a *ReadAhead) deepen(more int64) {
	n := a.load.deeper.Load()
	if to := min(n+more, a.load.chunks-int64(a.depth)); to > n {
		a.load.deeper.CompareAndSwap(n, to)
	}
}

func (s *ahead) fetch(f *fetch) {
	defer close(f.done)
	rc, version, err := openVersion(s.ctx, s.a.Repository, s.name, f.off, f.n, f.version)
	if err != nil {
		f.err = err
		return
	}
	defer rc.Close()
	f.version = version
	_, f.err = io.ReadFull(rc, (*f.buf)[:f.n])
}

// wait blocks until the next chunk has arrived, and adapts the number of requests ahead.
func (s *ahead) wait(f, last *fetch) {
	l := s.a.load
	select {
	case <-f.done:
		// Ranges requested before the stream was read arrived before they were needed.
		if s.first == 0 && last.came() {
			if n := l.deeper.Load(); n > 0 {
				l.deeper.CompareAndSwap(n, n-1)
			}
		}
	default:
		s.a.deepen((int64(s.a.depth) + l.deeper.Load() + 1) / 2)
		l.mu.Lock()
		l.fill()
		l.mu.Unlock()
		<-f.done
	}
	s.first = max(s.first-1, 0)
}

// came reports whether the fetch is complete.
func (f *fetch) came() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
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

// upcoming returns the next and the last requested range; nil if none is requested.
func (s *ahead) upcoming() (f, last *fetch) {
	l := s.a.load
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.reading {
		s.reading, s.first = true, len(s.pending)
		l.fill()
	}
	if len(s.pending) == 0 {
		return nil, nil
	}
	return s.pending[0], s.pending[len(s.pending)-1]
}

// advance makes the next chunk the current one; io.EOF after the last.
func (s *ahead) advance() error {
	l := s.a.load
	if f, last := s.upcoming(); f != nil {
		s.wait(f, last)
		if f.err != nil {
			return f.err // Close releases the memory
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.version != "" && f.version != s.version { // requested before the version of the first chunk was known
			return fault.Corrupt(s.name, "", f.off, "the object changed while it was read (ETag %s, then %s)", s.version, f.version)
		}
		s.pending = s.pending[1:]
		s.cur = &chunkReader{a: s.a, f: f}
		l.fill()
		return nil
	}
	l.mu.Lock()
	off, n, version := s.next, min(s.a.chunk, s.end-s.next), s.version
	s.next += n
	l.fill()
	l.mu.Unlock()
	if n == 0 {
		return io.EOF
	}
	cur, _, err := openVersion(s.ctx, s.a.Repository, s.name, off, n, version)
	if err != nil {
		return err
	}
	s.cur = cur
	return nil
}

// Close cancels the requests in progress and waits for them.
func (s *ahead) Close() error {
	s.cancel()
	for _, f := range s.a.load.end(s) {
		<-f.done
		s.a.load.giveBack(s.a, f)
	}
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

// chunkReader reads a fetched range; Close releases its memory.
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
		c.a.load.giveBack(c.a, c.f)
	}
	return nil
}
