package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func (r *S3) putIf(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	in := &s3.PutObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), RequestPayer: r.payer}
	if version == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &version
	}
	out, err := r.client.PutObject(ctx, in)
	switch {
	case err != nil && ctx.Err() == nil && unmet(err):
		return "", fmt.Errorf("put %s: %w", name, fs.ErrExist)
	case err != nil && ctx.Err() == nil && errorCode(err) == "ConditionalRequestConflict":
		// It does not prove that the object exists, or has another version: the other write may be a deletion.
		return "", fmt.Errorf("put %s: another write of the object was in progress: %w", name, fault.ErrUnavailable)
	case err != nil && ctx.Err() == nil && errorCode(err) == "NotImplemented":
		return "", fmt.Errorf("put %s: the store has no conditional writes (If-Match, If-None-Match): %w", name, fault.ErrConfig)
	case err != nil:
		return "", r.failed(ctx, verbPut, name, err)
	}
	return aws.ToString(out.ETag), nil
}

// unmet reports whether a write was refused because its condition did not hold: 412, or 404 for If-Match of an object that was deleted.
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

func (r *S3) names(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &r.bucket, Prefix: aws.String(r.prefix + prefix), RequestPayer: r.payer}
	if after != "" {
		in.StartAfter = aws.String(r.prefix + after)
	}
	out, err := r.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, nil, false, r.failed(ctx, "list", prefix, err)
	}
	for _, x := range out.Contents {
		key := aws.ToString(x.Key)
		names, versions = append(names, key[min(len(r.prefix), len(key)):]), append(versions, aws.ToString(x.ETag))
	}
	return names, versions, aws.ToBool(out.IsTruncated), nil
}

func (r *S3) delete(ctx context.Context, name string) error {
	if _, err := r.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer}); err != nil {
		return r.failed(ctx, "delete", name, err)
	}
	return nil
}

func (r *S3) date(ctx context.Context, name string) (time.Time, error) {
	out, err := r.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer})
	if err != nil {
		return time.Time{}, r.failed(ctx, "head", name, err)
	}
	at, _ := awsmiddleware.GetServerTime(out.ResultMetadata)
	return at, nil
}
