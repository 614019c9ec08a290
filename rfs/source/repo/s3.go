package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/rfsd/rfsd/rfs/base/awsconfig"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// S3Options configures access to a bucket. Credentials come from the default chain:
// variables, shared files, container and instance roles.
type S3Options struct {
	Region        string
	Endpoint      string // of an S3-compatible store; "" for AWS
	PathStyle     bool   // bucket in the path instead of in the host name
	RoleARN       string // role to assume with the default credentials; "" for none
	RequesterPays bool
	Flags         string // what the names of these settings start with, for messages: "" or "coordinator-"
	// Stall limits the time without a byte of a response; 0 means 30 s.
	Stall time.Duration
	// Pace is the part of the requests ahead of readers that is made; nil: all.
	Pace Pacer
}

// S3 is a repository in a bucket, read by ranges.
type S3 struct {
	client *s3.Client
	bucket string
	prefix string // "" or ending in "/"
	payer  types.RequestPayer
	creds  aws.CredentialsProvider
	stall  time.Duration
	// Where it is, for errors; endpoint is "" when the SDK derives it from the region.
	endpoint, region, flags string
}

// NewS3 opens s3://bucket/prefix. Errors: fault.ErrConfig for a URI or options that make no sense.
func NewS3(ctx context.Context, uri string, o S3Options) (*S3, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	prefix = strings.Trim(prefix, "/")
	if bucket == "" || strings.ContainsAny(bucket, "@:") {
		return nil, fmt.Errorf("repository URI: want s3://bucket/prefix, without user or password (those are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY): %w", fault.ErrConfig)
	}
	if prefix != "" {
		prefix += "/"
	}
	stall := cmp.Or(o.Stall, defaultStall)
	client := []func(*config.LoadOptions) error{
		// The retry decorator resumes broken bodies and knows when to stop; one layer retries.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = maxIdleConns
			t.ResponseHeaderTimeout = stall
			t.ForceAttemptHTTP2 = false // reads share no connection: a slow one would hold up the others
		}).WithDialerOptions(func(d *net.Dialer) { d.Timeout = 10 * time.Second })),
	}
	cfg, err := awsconfig.Load(ctx, awsconfig.Options{Region: o.Region, RegionSetting: "--" + o.Flags + "s3-region", RoleARN: o.RoleARN, Client: client})
	if err != nil {
		return nil, err
	}
	if build, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		// The SDK follows redirects, and to another port or a subdomain it takes the signature along.
		cfg.HTTPClient = &http.Client{Transport: build.GetTransport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if _, err := awsconfig.Credentials(ctx, cfg.Credentials); err != nil { // now rather than at the first blob
		return nil, fmt.Errorf("%s: %w: %w", uri, err, fault.ErrConfig)
	}
	r := &S3{bucket: bucket, prefix: prefix, creds: cfg.Credentials, stall: stall, endpoint: o.Endpoint, region: cfg.Region, flags: o.Flags}
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
	defaultStall = 30 * time.Second
)

// URI returns the URI of bucket and prefix.
func (r *S3) URI() string { return "s3://" + r.bucket + "/" + strings.TrimSuffix(r.prefix, "/") }

// Open streams a part of an object.
func (r *S3) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := r.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (r *S3) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), version, nil
	}
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer}
	switch {
	case n > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", off))
	}
	if version != "" {
		in.IfMatch = &version
	}
	rctx, cancel := context.WithCancel(ctx)
	out, err := r.client.GetObject(rctx, in)
	if err != nil {
		cancel()
		return nil, "", r.failed(ctx, "get", name, err)
	}
	if err := checkAnswer(name, off, n, version, out); err != nil {
		cancel() // closing alone would first read the rest
		out.Body.Close()
		return nil, "", err
	}
	have := aws.ToInt64(out.ContentLength)
	total, skip := have, int64(0)
	if out.ContentRange != nil {
		_, total = contentRange(*out.ContentRange)
	} else if in.Range != nil { // the whole object
		skip = off
		if have -= off; n > 0 {
			have = n
		}
	}
	body := &stallGuard{ReadCloser: out.Body, ctx: ctx, cancel: cancel, timer: time.AfterFunc(r.stall, cancel), stall: r.stall}
	body.timer.Stop()
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return nil, "", errors.Join(fmt.Errorf("blob %s: the answer broke off before byte %d: %w: %w", name, off, err, fault.ErrUnavailable), body.Close())
	}
	return &exact{ReadCloser: body, left: have, total: total, short: func(left int64) error {
		return fmt.Errorf("blob %s: the answer broke off with %d bytes missing: %w", name, left, fault.ErrUnavailable)
	}}, aws.ToString(out.ETag), nil
}

// maxSkip is the number of bytes of a whole object that are read and dropped, where a store answers with it to a range.
const maxSkip = 16 << 20

// suspect is an answer that does not hold the requested range. It may be a fault of the store or of what is between, so it is asked
// for again before err is true of the object.
type suspect struct{ err error }

func (s *suspect) Error() string { return s.err.Error() }
func (s *suspect) Unwrap() error { return s.err }

// checkAnswer compares the announced response with the request. Its error may be a *suspect.
func checkAnswer(name string, off, n int64, version string, out *s3.GetObjectOutput) error {
	etag, have := aws.ToString(out.ETag), aws.ToInt64(out.ContentLength)
	asked := n > 0 || off > 0 // a range
	switch {
	case version != "" && etag != version:
		return fault.Corrupt(name, "", off, "the object changed while it was read (ETag %s, then %s)", version, etag)
	case out.ContentLength == nil:
		return fmt.Errorf("blob %s: the store answered without a length: %w", name, fault.ErrUnavailable)
	case asked && out.ContentRange == nil: // the whole object, or its existing part
		if have < off+max(n, 0) {
			return &suspect{fault.Corrupt(name, "", have, "the object ends %d bytes early", off+max(n, 0)-have)}
		}
		if off > maxSkip {
			return &suspect{fmt.Errorf("blob %s: the store answered with the whole object of %d bytes to a range from byte %d on; it must support range requests: %w", name, have, off, fault.ErrConfig)}
		}
		return nil
	case asked:
		if from, _ := contentRange(*out.ContentRange); from != off {
			return &suspect{fault.Corrupt(name, "", off, "the store answered with the range %q to one from byte %d on", *out.ContentRange, off)}
		}
	}
	switch {
	case n > 0 && have < n: // the object ends before the range does
		return &suspect{fault.Corrupt(name, "", off+have, "the object ends %d bytes early", n-have)}
	case n > 0 && have > n:
		return &suspect{fmt.Errorf("blob %s: the store answered %d bytes to a range of %d; it must support range requests: %w", name, have, n, fault.ErrConfig)}
	}
	return nil
}

// contentRange reads the first byte and the length of the object out of "bytes 0-9/1000"; -1 for a missing number.
func contentRange(s string) (from, total int64) {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	part, length, _ := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	first, _, _ := strings.Cut(part, "-")
	return number(first), number(length)
}

// Stat asks for the size of an object.
func (r *S3) Stat(ctx context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	out, err := r.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + name), RequestPayer: r.payer})
	if err != nil {
		return 0, r.failed(ctx, "head", name, err)
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
				yield(Blob{}, r.failed(ctx, "list", prefix, err))
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
