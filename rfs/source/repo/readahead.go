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

// DefaultChunk is the number of bytes of a long stream that one request reads.
const DefaultChunk = 4 << 20

// ReadAheadOptions bound the bytes that are fetched before they are needed.
type ReadAheadOptions struct {
	Chunk  int64 // bytes per request of a long stream; 0 means DefaultChunk
	Depth  int   // requests ahead of the reader at first, per stream; 0 means 4
	Budget int64 // bytes of memory for all streams together; 0 means 64 MiB
	Pace   Pacer // of the depth; nil: all
}

// Pacer describes how many of n requests may be in progress, at least one, while the store is throttling.
type Pacer interface{ Of(n int) int }

// eager asks for all.
type eager struct{}

func (eager) Of(n int) int { return n }

// ReadAhead fetches the next ranges of long streams in parallel, so that one stream is
// not bound to the speed of one connection. What a reader needs now is never delayed by
// the budget: only what lies ahead waits for memory.
//
// How many requests run ahead of a reader follows bandwidth and delay: for the first stream as many as the least delay of the short
// requests before it and firstRate make; then half as many more whenever a reader had to wait for the next range, and one less
// whenever all that was asked for had come before it was needed. Streams that are read divide the budget; streams that were opened
// ahead get what these leave.
type ReadAhead struct {
	Repository
	chunk  int64
	depth  int // the least
	pace   Pacer
	budget *semaphore.Weighted
	load   *load
}

// firstRate is the throughput that the first stream of a process is prepared for, in bytes per second.
const firstRate = 1 << 30

// load is shared by the streams of one budget.
type load struct {
	delay  atomic.Int64 // least time that the repository took to start to answer a short request, in ns; 0: unknown
	first  sync.Once    // the first stream sets deeper by delay
	chunks int64        // that the budget holds
	deeper atomic.Int64 // requests ahead beyond the depth of the options

	mu      sync.Mutex
	streams []*ahead  // that are open, in the order in which they were opened
	free    []*[]byte // chunks of memory that their streams returned; the chunks of the last stream go to pool
	pool    sync.Pool // of *[]byte of chunk bytes
}

// begin adds a stream and requests its first ranges.
func (l *load) begin(s *ahead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
	l.fill()
}

// end takes a stream out and returns the ranges of it that were not read.
func (l *load) end(s *ahead) []*fetch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = slices.DeleteFunc(l.streams, func(o *ahead) bool { return o == s })
	pending := s.pending
	s.pending = nil
	l.forget()
	return pending
}

// forget returns the memory that no stream needs any more to the pool. The mutex is held.
func (l *load) forget() {
	if len(l.streams) > 0 {
		return
	}
	for _, b := range l.free {
		l.pool.Put(b)
	}
	l.free = nil
}

// take returns memory for a chunk. The garbage collector empties a pool, so that what streams exchange is kept next to it. The mutex
// is held.
func (l *load) take() *[]byte {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return l.pool.Get().(*[]byte)
}

// giveBack takes the memory of a range that was read, for the next ranges.
func (l *load) giveBack(a *ReadAhead, f *fetch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, f.buf)
	f.buf = nil
	a.budget.Release(a.chunk)
	l.fill()
	l.forget()
}

// fill asks for ranges as far as depth and memory allow. Streams that are read divide the budget; what they leave, because they have
// asked for all of their range or need no more, is for those that were opened ahead, in order, so that the next segment continues
// where the last has ended. The mutex is held.
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

// answered notes how long the repository took to start to answer.
func (l *load) answered(took time.Duration) {
	for d := l.delay.Load(); (d == 0 || int64(took) < d) && !l.delay.CompareAndSwap(d, int64(took)); d = l.delay.Load() {
	}
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
	a := &ReadAhead{Repository: r, chunk: o.Chunk, depth: o.Depth, pace: o.Pace, budget: semaphore.NewWeighted(o.Budget), load: &load{chunks: o.Budget / o.Chunk}}
	a.load.pool.New = func() any { b := make([]byte, o.Chunk); return &b }
	return a
}

// Open streams; a range longer than a chunk is fetched ahead.
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
	a.load.begin(s)
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

// ahead is a stream of chunks in order: cur is being read, pending are on their way.
type ahead struct {
	a      *ReadAhead
	ctx    context.Context
	cancel context.CancelFunc
	name   string
	total  int64
	cur    io.ReadCloser
	first  int // of the ranges that were asked for before it was read, those that were not read
	err    error

	// Guarded by load.mu.
	version string // of the first chunk; "" before it is known, and where the store states none
	reading bool   // its first chunk was read; before, it may be a stream that was opened ahead
	pending []*fetch
	next    int64 // first byte that is not asked for yet
	end     int64
}

// fetch is one range on its way into memory.
type fetch struct {
	buf     *[]byte
	off, n  int64
	done    chan struct{}
	version string
	err     error
}

// Total returns the length of the blob.
func (s *ahead) Total() int64 { return s.total }

// ask has n ranges on their way, as far as there is memory. The mutex of load is held.
func (s *ahead) ask(n int) {
	for len(s.pending) < s.a.pace.Of(max(n, 1)) && s.next < s.end && s.a.budget.TryAcquire(s.a.chunk) {
		f := &fetch{buf: s.a.load.take(), off: s.next, n: min(s.a.chunk, s.end-s.next), done: make(chan struct{}), version: s.version}
		s.pending = append(s.pending, f)
		go s.fetch(f)
		s.next += f.n
	}
}

// deepen has more requests run ahead, as far as the budget allows.
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

// wait blocks until the next chunk has come, and sets how many requests run ahead by whether it had.
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

// came reports whether the fetch is over.
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

// upcoming returns the next range and the last that was asked for; nil: none was.
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
		if s.version != "" && f.version != s.version { // asked for before the version of the first chunk was known
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

// Close ends the requests that are in progress and waits for them.
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
		c.a.load.giveBack(c.a, c.f)
	}
	return nil
}
