// Package repo reads the blobs of a snapshot repository: a directory or a bucket.
//
// It does not interpret the blobs, and never writes to a repository (a Bucket, which writes, is not a repository). Names are relative to
// the root of the repository, with slashes as separators.
package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

// Blob is one entry of a listing.
type Blob struct {
	Name string
	Size int64 // bytes
}

// Repository is the interface of all kinds of repositories, as returned by Open.
type Repository interface {
	// Open streams n bytes of a blob at off, or up to the end if n < 0. A missing blob is fs.ErrNotExist. The stream never ends before n
	// bytes without an error: fault.ErrCorrupt if the blob is shorter, fault.ErrUnavailable if the store fails in between. A stream that
	// knows the length of the whole blob has a method Total() int64 (see Total).
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	// Stat returns the size of a blob in bytes.
	Stat(ctx context.Context, name string) (int64, error)
	// List yields all blobs whose names start with prefix, at any depth.
	List(ctx context.Context, prefix string) iter.Seq2[Blob, error]
	// URI names the repository for messages; it holds no secrets.
	URI() string
}

// Options configure access to buckets; each kind of store has its own. Directories need none.
type Options struct {
	S3    S3Options
	GCS   GCSOptions
	Azure AzureOptions
	// Pace limits the requests ahead of readers; nil: no limit.
	Pace Pacer
	// Rate limits the bytes that are read from all repositories opened with these options; nil: no limit.
	Rate Limiter
}

// forms are the forms of addresses of repositories.
const forms = "file:///path, a path, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix and https://host/path"

// IsBucket reports whether an address is the address of a bucket or container.
func IsBucket(uri string) bool {
	scheme, _, ok := strings.Cut(uri, "://")
	return ok && (scheme == "s3" || scheme == "gs" || scheme == "azblob")
}

// IsRemote reports whether an address is read over a network, with read-ahead: a bucket or a web server.
func IsRemote(uri string) bool {
	return IsBucket(uri) || strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
}

// Open opens a repository: file:///path, a path, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix, or
// https://host/path (read-only, without listings).
func Open(ctx context.Context, uri string, o Options) (Repository, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	switch {
	case !ok:
		return openDir(uri, o)
	case scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("%q: a file URI has three slashes, as in file:///path: %w", uri, fault.ErrConfig)
		}
		return openDir(rest, o)
	}
	r, err := openRemote(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return NewReadAhead(NewRetrying(Limit(r, o.Rate), retry.Policy{}), ReadAheadOptions{Pace: o.Pace}), nil
}

func openDir(path string, o Options) (Repository, error) {
	d, err := NewDir(path)
	if err != nil {
		return nil, err
	}
	return Limit(d, o.Rate), nil
}

// openRemote opens a bucket or a web server, without retries.
func openRemote(ctx context.Context, uri string, o Options) (Repository, error) {
	if IsRemote(uri) && !IsBucket(uri) {
		return NewWeb(uri, 0)
	}
	return openStore(ctx, uri, o)
}

// store is a bucket or container that makes one request per call.
type store interface {
	Repository
	writer
	conditional
}

// openStore opens a bucket or container without retries.
func openStore(ctx context.Context, uri string, o Options) (store, error) {
	scheme, _, _ := strings.Cut(uri, "://")
	switch scheme {
	case "s3":
		return NewS3(ctx, uri, o.S3)
	case "gs":
		return NewGCS(ctx, uri, o.GCS)
	case "azblob":
		return NewAzure(ctx, uri, o.Azure)
	}
	if IsRemote(uri) {
		return nil, fmt.Errorf("%q: a web server is only read, want s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix: %w", uri, fault.ErrConfig)
	}
	return nil, fmt.Errorf("%q: only %s are known: %w", uri, forms, fault.ErrConfig)
}

// checkName rejects names that are not plain relative paths, so that no manifest can lead out of the repository.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\\") {
		return fault.Corrupt(name, "", -1, "no name of a blob in this repository")
	}
	return nil
}

// Opener is the part of a repository that ReadAll needs.
type Opener interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
}

// ReadAll reads a whole blob of at most limit bytes.
func ReadAll(ctx context.Context, r Opener, name string, limit int64) ([]byte, error) {
	rc, err := r.Open(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := readAll(io.LimitReader(rc, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fault.Corrupt(name, "", limit, "longer than the %d bytes that such a blob may have", limit)
	}
	return b, nil
}

// usualBlob is a length, in bytes, that few of the blobs that are read whole exceed.
const usualBlob = 4 << 10

// readAll is io.ReadAll for blobs: one call reads most of them.
func readAll(r io.Reader) ([]byte, error) {
	b := make([]byte, 0, usualBlob)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}
