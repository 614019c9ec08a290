package repo

import (
	"context"
	"errors"
	"io"
)

// Total returns the length in bytes of the whole blob whose part rc streams; false if the stream does not know it.
func Total(rc io.ReadCloser) (int64, bool) {
	t, ok := rc.(interface{ Total() int64 })
	if !ok {
		return 0, false
	}
	n := t.Total()
	return n, n >= 0
}

// pinned opens a part of a blob in the version that an earlier part had (an ETag; "" for any), so that several requests read the same
// object. A blob that has changed in the meantime is a fault.Damage.
type pinned interface {
	openVersion(ctx context.Context, name string, off, n int64, version string) (rc io.ReadCloser, got string, err error)
}

// openVersion opens a part of a version of a blob if r supports versions, else of the current blob.
func openVersion(ctx context.Context, r Repository, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	if p, ok := r.(pinned); ok {
		return p.openVersion(ctx, name, off, n, version)
	}
	rc, err := r.Open(ctx, name, off, n)
	return rc, "", err
}

// exact is a stream of a known length: an earlier end is the error that short returns.
type exact struct {
	io.ReadCloser
	left  int64
	total int64 // of the blob; -1 if unknown
	short func(left int64) error
}

// Total returns the length of the blob.
func (e *exact) Total() int64 { return e.total }

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.ReadCloser.Read(p)
	e.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && e.left > 0:
		return n, e.short(e.left)
	case errors.Is(err, io.EOF) && n > 0:
		return n, nil
	}
	return n, err
}
