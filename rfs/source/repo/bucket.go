package repo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/rfsd/rfsd/rfs/base/retry"
)

// writer is the part of a store that a Bucket needs.
type writer interface {
	URI() string
	// put writes an object by one request.
	put(ctx context.Context, name string, body io.ReadSeeker, size int64) error
}

// Bucket is a prefix of a bucket or container to write objects to. It is not a repository, and no repository is a Bucket: the code that
// reads snapshots has no method that writes.
type Bucket struct {
	to     writer
	policy retry.Policy
}

// OpenBucket returns a Bucket without sending a request. Errors: fault.ErrConfig.
func OpenBucket(ctx context.Context, uri string, o Options, p retry.Policy) (*Bucket, error) {
	to, err := openStore(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return &Bucket{to: to, policy: withDefaults(p)}, nil
}

// URI returns the URI of bucket and prefix.
func (b *Bucket) URI() string { return b.to.URI() }

// Put writes a whole object and replaces an existing one; the object is durable when Put returns. While the store is unavailable
// (fault.ErrUnavailable), it retries with back-off as the policy states; it returns fault.ErrConfig if the store refuses permanently.
func (b *Bucket) Put(ctx context.Context, name string, body []byte) error {
	return b.PutFrom(ctx, name, bytes.NewReader(body), int64(len(body)))
}

// slowestPut is the minimum throughput at which a store accepts a long object, in bytes per second.
const slowestPut = 1 << 20

// PutFrom is Put for size bytes from the start of body, which each attempt reads again and which is never held whole.
func (b *Bucket) PutFrom(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	return b.policy.Do(ctx, func(ctx context.Context) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		return b.to.put(ctx, name, body, size)
	})
}

// putTimeout returns the timeout of a request that writes size bytes.
func putTimeout(stall time.Duration, size int64) time.Duration {
	return 4*stall + time.Duration(size/slowestPut)*time.Second
}

func (r *S3) put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	rctx, cancel := context.WithTimeout(ctx, putTimeout(r.stall, size))
	defer cancel()
	_, err := r.client.PutObject(rctx, &s3.PutObjectInput{
		Bucket: &r.bucket, Key: aws.String(r.prefix + name), Body: body, ContentLength: aws.Int64(size), RequestPayer: r.payer,
	})
	if err != nil {
		return r.failed(ctx, verbPut, name, err)
	}
	return nil
}
