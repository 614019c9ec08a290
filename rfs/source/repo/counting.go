package repo

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"
)

// Request is one entry of a request log.
type Request struct {
	Verb   string // open, stat, list
	Name   string
	Off, N int64
}

// Counting counts requests and bytes of a repository, and logs requests on demand.
type Counting struct {
	Repository
	*tally
}

// tally is shared by a repository and the store that contains it.
type tally struct {
	requests atomic.Int64
	bytes    atomic.Int64
	errors   atomic.Int64

	mu    sync.Mutex
	log   *[]Request
	alone func(ctx context.Context) (release func(), err error)

	memory sync.Map
}

// NewCounting returns a decorator of r that counts.
func NewCounting(r Repository) *Counting { return &Counting{Repository: r, tally: &tally{}} }

// Totals returns the requests made and the bytes read so far.
func (c *Counting) Totals() (requests, bytes int64) { return c.requests.Load(), c.bytes.Load() }

// Errors returns the number of requests that failed after all retries; a missing blob is not a failure.
func (c *Counting) Errors() int64 { return c.errors.Load() }

func (t *tally) failed(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		t.errors.Add(1)
	}
	return err
}

// Log appends every further request to log, which must not be read before the last one.
func (c *Counting) Log(log *[]Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
}

// LargeAlone sets the function that blocks until a reader may hold a large blob.
func (c *Counting) LargeAlone(alone func(ctx context.Context) (release func(), err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = alone
}

// HoldLarge blocks until a large blob may be held; the caller calls release when it has dropped the blob.
func (c *Counting) HoldLarge(ctx context.Context) (release func(), err error) {
	c.mu.Lock()
	alone := c.alone
	c.mu.Unlock()
	if alone == nil {
		return func() {}, nil
	}
	return alone(ctx)
}

// Memory returns what readers of the repository keep in it, by keys of their own types.
func (c *Counting) Memory() *sync.Map { return &c.memory }

func (c *Counting) note(r Request) {
	c.requests.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		*c.log = append(*c.log, r)
	}
}

// Open opens a blob and counts the bytes read.
func (c *Counting) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if ctx.Err() != nil { // a directory does not check ctx before it answers
		return nil, context.Cause(ctx)
	}
	c.note(Request{Verb: "open", Name: name, Off: off, N: n})
	rc, err := c.Repository.Open(ctx, name, off, n)
	if err != nil {
		return nil, c.failed(err)
	}
	return &countedStream{ReadCloser: rc, tally: c.tally}, nil
}

// Stat returns the size of a blob, and counts the request.
func (c *Counting) Stat(ctx context.Context, name string) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	c.note(Request{Verb: "stat", Name: name})
	n, err := c.Repository.Stat(ctx, name)
	return n, c.failed(err)
}

// List yields the blobs below a prefix, and counts the request.
func (c *Counting) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	c.note(Request{Verb: "list", Name: prefix})
	return c.Repository.List(ctx, prefix)
}

type countedStream struct {
	io.ReadCloser
	tally *tally
}

// Total returns the length that the underlying stream states.
func (s *countedStream) Total() int64 {
	if n, ok := Total(s.ReadCloser); ok {
		return n
	}
	return -1
}

func (s *countedStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.tally.bytes.Add(int64(n))
	return n, s.tally.failed(err)
}
