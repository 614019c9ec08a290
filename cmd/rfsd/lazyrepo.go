package main

import (
	"context"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// openRepository opens the repository. When this session creates the snapshot, the repository
// may not be there before the source has written to it: then it is opened when it is read first.
func openRepository(ctx context.Context, o options) (repo.Repository, error) {
	if o.origin.derived {
		return &lazyRepository{o: o}, nil
	}
	return repo.OpenFederation(ctx, o.repoURI, o.remotes, o.s3)
}

// lazyRepository is opened by its first use that succeeds.
type lazyRepository struct {
	o    options
	mu   sync.Mutex
	open repo.Repository
}

func (l *lazyRepository) get(ctx context.Context) (repo.Repository, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		return l.open, nil
	}
	r, err := repo.Open(context.WithoutCancel(ctx), l.o.repoURI, l.o.s3)
	if err == nil {
		l.open = r
	}
	return r, err
}

func (l *lazyRepository) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, name, off, n)
}

func (l *lazyRepository) Stat(ctx context.Context, name string) (int64, error) {
	r, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return r.Stat(ctx, name)
}

func (l *lazyRepository) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	r, err := l.get(ctx)
	if err != nil {
		return func(yield func(repo.Blob, error) bool) { yield(repo.Blob{}, err) }
	}
	return r.List(ctx, prefix)
}

// URI names the repository as repo.Open does.
func (l *lazyRepository) URI() string {
	uri := l.o.repoURI
	if strings.Contains(uri, "://") {
		return uri
	}
	if abs, err := filepath.Abs(uri); err == nil {
		uri = abs
	}
	return "file://" + uri
}
