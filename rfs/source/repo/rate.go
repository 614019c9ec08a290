package repo

import (
	"context"
	"io"
)

// Limiter blocks until n bytes are permitted.
type Limiter interface {
	Take(ctx context.Context, n int) error
}

// Limited reads a repository no faster than a limiter permits. It is below the layers that retry or read ahead, so that every byte that a
// store sends counts, including bytes that are read twice.
type Limited struct {
	Repository
	rate Limiter
}

// Limit returns r with a rate limit; r itself if rate is nil.
func Limit(r Repository, rate Limiter) Repository {
	if rate == nil {
		return r
	}
	return &Limited{Repository: r, rate: rate}
}

// Open opens a blob whose bytes count.
func (l *Limited) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := l.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (l *Limited) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	rc, got, err := openVersion(ctx, l.Repository, name, off, n, version)
	if err != nil {
		return nil, "", err
	}
	return &limitedStream{ReadCloser: rc, ctx: ctx, rate: l.rate}, got, nil
}

// Store returns the whole store with the same rate.
func (l *Limited) Store() (Repository, bool) {
	whole, ok := storeOf(l.Repository)
	return &Limited{Repository: whole, rate: l.rate}, ok
}

// Above returns the repository one level above, with the same rate.
func (l *Limited) Above() (Repository, bool) {
	above, ok := aboveOf(l.Repository)
	return &Limited{Repository: above, rate: l.rate}, ok
}

// maxRead is the maximum number of bytes of one Read before the limiter is asked, so that a low rate still flows evenly.
const maxRead = 64 << 10

// limitedStream waits for the limiter after each Read. It does not read while it waits, so the connection slows the store down.
type limitedStream struct {
	io.ReadCloser
	ctx  context.Context
	rate Limiter
}

// Total returns the length that the underlying stream states.
func (s *limitedStream) Total() int64 {
	if n, ok := Total(s.ReadCloser); ok {
		return n
	}
	return -1
}

func (s *limitedStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p[:min(len(p), maxRead)])
	if n == 0 {
		return n, err
	}
	if terr := s.rate.Take(s.ctx, n); terr != nil {
		if s.ctx.Err() != nil {
			terr = context.Cause(s.ctx)
		}
		return 0, terr
	}
	return n, err
}
