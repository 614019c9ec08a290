package repo

import (
	"context"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"sync"
)

// Lazy is a repository that is opened at its first use. A call that cannot open it returns the reason, and the next call tries again.
type Lazy struct {
	Address string // as Open takes it
	Options Options

	mu     sync.Mutex
	opened Repository
}

func (l *Lazy) get(ctx context.Context) (Repository, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened != nil {
		return l.opened, nil
	}
	r, err := Open(context.WithoutCancel(ctx), l.Address, l.Options)
	if err == nil {
		l.opened = r
	}
	return r, err
}

// Open implements Repository.
func (l *Lazy) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, name, off, n)
}

// Stat implements Repository.
func (l *Lazy) Stat(ctx context.Context, name string) (int64, error) {
	r, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return r.Stat(ctx, name)
}

// List implements Repository.
func (l *Lazy) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	r, err := l.get(ctx)
	if err != nil {
		return func(yield func(Blob, error) bool) { yield(Blob{}, err) }
	}
	return r.List(ctx, prefix)
}

// URI returns the same URI as the repository that Open returns.
func (l *Lazy) URI() string {
	uri := l.Address
	if strings.Contains(uri, "://") {
		return uri
	}
	if abs, err := filepath.Abs(uri); err == nil {
		uri = abs
	}
	return "file://" + uri
}
