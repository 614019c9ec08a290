package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Objects are small objects below a prefix of a bucket that several processes change under conditions. Each call is one
// request, without retries.
type Objects struct{ s3 *S3 }

const (
	// maxObject bounds an object of Objects, in bytes.
	maxObject = 32 << 20
	// objectTimeout bounds a request, answer included.
	objectTimeout = 30 * time.Second
)

// OpenObjects prepares s3://bucket/prefix; nothing is asked of it yet. Errors: fault.ErrConfig.
func OpenObjects(ctx context.Context, uri string, o S3Options) (*Objects, error) {
	r, err := NewS3(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return &Objects{s3: r}, nil
}

// URI returns the URI of bucket and prefix.
func (o *Objects) URI() string { return o.s3.URI() }

func (o *Objects) key(name string) (*string, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return aws.String(o.s3.prefix + name), nil
}

// Get returns an object and its version (ETag), or fs.ErrNotExist.
func (o *Objects) Get(ctx context.Context, name string) (body []byte, version string, err error) {
	key, err := o.key(name)
	if err != nil {
		return nil, "", err
	}
	rctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	out, err := o.s3.client.GetObject(rctx, &s3.GetObjectInput{Bucket: &o.s3.bucket, Key: key, RequestPayer: o.s3.payer})
	if err != nil {
		return nil, "", o.s3.failed(ctx, "get", name, err)
	}
	defer out.Body.Close()
	body, err = io.ReadAll(io.LimitReader(out.Body, maxObject+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, "", fmt.Errorf("get %s: %w", name, context.Cause(ctx))
	case err != nil:
		return nil, "", fmt.Errorf("get %s: the answer broke off: %w: %w", name, err, fault.ErrUnavailable)
	case len(body) > maxObject:
		return nil, "", fault.Corrupt(name, "", maxObject, "longer than the %d bytes that such an object may have", maxObject)
	case aws.ToString(out.ETag) == "":
		return nil, "", fmt.Errorf("get %s: the store answers without an ETag: %w", name, fault.ErrConfig)
	}
	return body, aws.ToString(out.ETag), nil
}

// Put writes an object if its version is still the given one, or with "" if it does not exist, and returns the new version.
// fs.ErrExist means that the condition did not hold and nothing was changed. fault.ErrUnavailable means that the outcome is
// unknown.
func (o *Objects) Put(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	key, err := o.key(name)
	if err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{Bucket: &o.s3.bucket, Key: key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), RequestPayer: o.s3.payer}
	if version == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &version
	}
	rctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	out, err := o.s3.client.PutObject(rctx, in)
	switch {
	case err != nil && ctx.Err() == nil && unmet(err):
		return "", fmt.Errorf("put %s: %w", name, fs.ErrExist)
	case err != nil && ctx.Err() == nil && errorCode(err) == "ConditionalRequestConflict":
		// It does not prove that the object exists, or that its version is another: the other write may be a deletion.
		return "", fmt.Errorf("put %s: another write of the object was in progress: %w", name, fault.ErrUnavailable)
	case err != nil && ctx.Err() == nil && errorCode(err) == "NotImplemented":
		return "", fmt.Errorf("put %s: the store has no conditional writes (If-Match, If-None-Match): %w", name, fault.ErrConfig)
	case err != nil:
		return "", o.s3.failed(ctx, verbPut, name, err)
	case aws.ToString(out.ETag) == "":
		return "", fmt.Errorf("put %s: the store answers without an ETag: %w", name, fault.ErrConfig)
	}
	return aws.ToString(out.ETag), nil
}

// unmet reports whether a write was refused because its condition did not hold: 412, or 404 for If-Match of an object that is
// gone.
func unmet(err error) bool {
	switch errorCode(err) {
	case "PreconditionFailed", "NoSuchKey":
		return true
	}
	var response *awshttp.ResponseError
	return errors.As(err, &response) && response.HTTPStatusCode() == http.StatusPreconditionFailed
}

func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// List returns a page of the objects below a prefix whose names come after a name, in order of names, with their versions;
// more reports whether others follow.
func (o *Objects) List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &o.s3.bucket, Prefix: aws.String(o.s3.prefix + prefix), RequestPayer: o.s3.payer}
	if after != "" {
		in.StartAfter = aws.String(o.s3.prefix + after)
	}
	rctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	out, err := o.s3.client.ListObjectsV2(rctx, in)
	if err != nil {
		return nil, nil, false, o.s3.failed(ctx, "list", prefix, err)
	}
	for _, x := range out.Contents {
		name := aws.ToString(x.Key)[min(len(o.s3.prefix), len(aws.ToString(x.Key))):]
		if checkName(name) != nil { // a folder that a console made
			continue
		}
		names, versions = append(names, name), append(versions, aws.ToString(x.ETag))
	}
	more = aws.ToBool(out.IsTruncated)
	if more && len(names) == 0 {
		return nil, nil, false, fmt.Errorf("list %s: the store answers with an empty page and announces more: %w", prefix, fault.ErrUnavailable)
	}
	return names, versions, more, nil
}

// Delete removes an object. It returns no error when the object does not exist.
func (o *Objects) Delete(ctx context.Context, name string) error {
	key, err := o.key(name)
	if err != nil {
		return err
	}
	rctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	if _, err := o.s3.client.DeleteObject(rctx, &s3.DeleteObjectInput{Bucket: &o.s3.bucket, Key: key, RequestPayer: o.s3.payer}); err != nil {
		return o.s3.failed(ctx, "delete", name, err)
	}
	return nil
}

// Date returns the clock of the store, in whole seconds, from the Date header of its answer to a HEAD request.
func (o *Objects) Date(ctx context.Context, name string) (time.Time, error) {
	key, err := o.key(name)
	if err != nil {
		return time.Time{}, err
	}
	rctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	out, err := o.s3.client.HeadObject(rctx, &s3.HeadObjectInput{Bucket: &o.s3.bucket, Key: key, RequestPayer: o.s3.payer})
	if err != nil {
		return time.Time{}, o.s3.failed(ctx, "head", name, err)
	}
	at, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok || at.IsZero() {
		return time.Time{}, fmt.Errorf("head %s: the store answers without its time (Date): %w", name, fault.ErrConfig)
	}
	return at, nil
}
