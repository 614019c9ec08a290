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

// Bucket is a place below which objects are written. It is not a repository, and no repository is one: what reads
// snapshots has no method that writes.
type Bucket struct {
	s3     *S3
	policy retry.Policy
}

// OpenBucket prepares s3://bucket/prefix for writing; nothing is asked of it yet. Errors: fault.ErrConfig.
func OpenBucket(ctx context.Context, uri string, o S3Options, p retry.Policy) (*Bucket, error) {
	r, err := NewS3(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return &Bucket{s3: r, policy: withDefaults(p)}, nil
}

// URI returns the URI of bucket and prefix.
func (b *Bucket) URI() string { return b.s3.URI() }

// Put writes an object whole, in place of one of that name; it is durable when Put returns. While the store is not
// there (fault.ErrUnavailable) it tries again with growing pauses, as the policy says; fault.ErrConfig when the
// store refuses permanently.
func (b *Bucket) Put(ctx context.Context, name string, body []byte) error {
	return b.PutFrom(ctx, name, bytes.NewReader(body), int64(len(body)))
}

// PutFrom is Put of size bytes from the start of body, which is read again with each attempt and never held whole.
func (b *Bucket) PutFrom(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	return b.policy.Do(ctx, func(ctx context.Context) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		return b.put(ctx, name, body, size)
	})
}

// slowestPut is the least number of bytes of a long object that a store takes per second.
const slowestPut = 1 << 20

func (b *Bucket) put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	limited, cancel := context.WithTimeout(ctx, 4*b.s3.stall+time.Duration(size/slowestPut)*time.Second)
	defer cancel()
	_, err := b.s3.client.PutObject(limited, &s3.PutObjectInput{
		Bucket: &b.s3.bucket, Key: aws.String(b.s3.prefix + name), Body: body,
		ContentLength: aws.Int64(size), RequestPayer: b.s3.payer,
	})
	if err != nil {
		return b.s3.failed(ctx, verbPut, name, err)
	}
	return nil
}
