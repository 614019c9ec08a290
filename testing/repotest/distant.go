package repotest

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Distant is a repository that delays each request by Delay.
type Distant struct {
	Reader
	Delay time.Duration
}

// Open waits, then opens.
func (d Distant) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	time.Sleep(d.Delay)
	return d.Reader.Open(ctx, name, off, n)
}

// List waits, then lists.
func (d Distant) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	time.Sleep(d.Delay)
	return d.Reader.List(ctx, prefix)
}
