package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/rfsd/rfsd/rfs/fault"
)

// S3Options say how a bucket is reached. Credentials come from the default chain:
// variables, shared files, container and instance roles.
type S3Options struct {
	Region        string
	Endpoint      string // of an S3-compatible store; "" for AWS
	PathStyle     bool   // bucket in the path instead of in the host name
	RoleARN       string // role to assume with the default credentials; "" for none
	RequesterPays bool
}

// S3 is a repository in a bucket, read by ranges.
type S3 struct {
	client *s3.Client
	bucket string
	prefix string // "" or ending in "/"
	payer  types.RequestPayer
}

// NewS3 opens s3://bucket/prefix. Errors: fault.ErrConfig for a URI or options that make no sense.
func NewS3(ctx context.Context, uri string, o S3Options) (*S3, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	prefix = strings.Trim(prefix, "/")
	if bucket == "" {
		return nil, fmt.Errorf("%q names no bucket, as in s3://bucket/prefix: %w", uri, fault.ErrConfig)
	}
	if prefix != "" {
		prefix += "/"
	}
	load := []func(*config.LoadOptions) error{
		// The retry decorator resumes broken bodies and knows when to stop; one layer retries.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = maxIdleConns
			t.ResponseHeaderTimeout = stallTimeout
		}).WithDialerOptions(func(d *net.Dialer) { d.Timeout = 10 * time.Second })),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("settings for %s: %w: %w", uri, err, fault.ErrConfig)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("the region of bucket %s is not known; give --s3-region: %w", bucket, fault.ErrConfig)
	}
	if o.RoleARN != "" {
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), o.RoleARN))
	}
	r := &S3{bucket: bucket, prefix: prefix}
	if o.RequesterPays {
		r.payer = types.RequestPayerRequester
	}
	r.client = s3.NewFromConfig(cfg, func(c *s3.Options) {
		c.UsePathStyle = o.PathStyle
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		c.DisableLogOutputChecksumValidationSkipped = true
		if o.Endpoint != "" {
			c.BaseEndpoint = aws.String(o.Endpoint)
		}
	})
	return r, nil
}

const (
	maxIdleConns = 64
	stallTimeout = 30 * time.Second // without a byte
)

// URI is the URI of bucket and prefix.
func (r *S3) URI() string { return "s3://" + r.bucket + "/" + strings.TrimSuffix(r.prefix, "/") }

// Open streams a part of an object.
func (r *S3) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer}
	switch {
	case n > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", off))
	}
	ctx, cancel := context.WithCancel(ctx)
	out, err := r.client.GetObject(ctx, in)
	if err != nil {
		cancel()
		return nil, r.failed("get", name, err)
	}
	have := aws.ToInt64(out.ContentLength)
	if n > 0 && have != n {
		out.Body.Close()
		cancel()
		if have < n { // the object ends before the range does
			return nil, fault.Corrupt(name, "", off+have, "the object ends %d bytes early", n-have)
		}
		return nil, fmt.Errorf("blob %s: the store answered %d bytes to a range of %d; it must support range requests: %w", name, have, n, fault.ErrConfig)
	}
	body := &stallGuard{ReadCloser: out.Body, cancel: cancel, timer: time.AfterFunc(stallTimeout, cancel)}
	return &exact{ReadCloser: body, name: name, left: have, short: func(name string, left int64) error {
		return fmt.Errorf("blob %s: the answer broke off with %d bytes missing: %w", name, left, fault.ErrUnavailable)
	}}, nil
}

// Stat asks for the size of an object.
func (r *S3) Stat(ctx context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	out, err := r.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer})
	if err != nil {
		return 0, r.failed("head", name, err)
	}
	return aws.ToInt64(out.ContentLength), nil
}

// List pages through the objects below a prefix.
func (r *S3) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		pages := s3.NewListObjectsV2Paginator(r.client, &s3.ListObjectsV2Input{
			Bucket: &r.bucket, Prefix: aws.String(r.prefix + prefix), RequestPayer: r.payer,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Blob{}, r.failed("list", prefix, err))
				return
			}
			for _, o := range page.Contents {
				name := strings.TrimPrefix(aws.ToString(o.Key), r.prefix)
				if strings.HasSuffix(name, "/") { // a folder that a console made
					continue
				}
				if !yield(Blob{Name: name, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
		}
	}
}

// failed gives an error of the store its category.
func (r *S3) failed(verb, name string, err error) error {
	what := fmt.Sprintf("%s s3://%s/%s%s", verb, r.bucket, r.prefix, name)
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", what, err)
	}
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var response *awshttp.ResponseError
	status := 0
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("%s: the bucket does not exist: %w", what, fault.ErrConfig)
	case code == "NoSuchKey" || code == "NotFound" || status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return fault.Corrupt(name, "", -1, "the object ends before the range that is needed")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%s: %s; the credentials may not do this (s3:GetObject and s3:ListBucket are needed): %w", what, code, fault.ErrConfig)
	case status == http.StatusMovedPermanently || code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed":
		return fmt.Errorf("%s: %s; is --s3-region the bucket's region?: %w", what, code, fault.ErrConfig)
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return fmt.Errorf("%s: %w: %w", what, err, fault.ErrConfig)
	}
	return fmt.Errorf("%s: %w: %w", what, err, fault.ErrUnavailable)
}

// stallGuard ends a body that gives no byte for stallTimeout.
type stallGuard struct {
	io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func (g *stallGuard) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.timer.Reset(stallTimeout)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read body: %w: %w", err, fault.ErrUnavailable)
	}
	return n, err
}

func (g *stallGuard) Close() error {
	g.timer.Stop()
	err := g.ReadCloser.Close()
	g.cancel()
	return err
}
