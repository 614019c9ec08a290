package repo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/rfsd/rfsd/rfs/base/awsconfig"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// S3Options configure access to a bucket. Credentials come from the default chain: variables, shared files, container and instance roles.
type S3Options struct {
	Region        string
	Endpoint      string // of an S3-compatible store; "" for AWS
	PathStyle     bool   // bucket in the path instead of in the host name
	RoleARN       string // role to assume with the default credentials; "" for none
	RequesterPays bool
	Flags         string // prefix of the names of these settings, for messages: "" or "coordinator-"
	// Stall limits the time without a byte of a response; 0 means 30 s.
	Stall time.Duration
}

// S3 is a repository in a bucket, read by ranges.
type S3 struct {
	client *s3.Client
	place
	payer types.RequestPayer
	creds aws.CredentialsProvider
	stall time.Duration
	// Location for errors; endpoint is "" if the SDK derives it from the region.
	endpoint, region, flags string
}

// NewS3 opens s3://bucket/prefix. Errors: fault.ErrConfig for an invalid URI or invalid options.
func NewS3(ctx context.Context, uri string, o S3Options) (*S3, error) {
	at, ok := placeOf(uri)
	if !ok {
		return nil, fmt.Errorf("repository URI: want s3://bucket/prefix, without user or password (those are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY): %w", fault.ErrConfig)
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
		// The SDK follows redirects, and sends the signature to another port or a subdomain.
		cfg.HTTPClient = &http.Client{Transport: tracing.Transport(build.GetTransport(), role(o.Flags)), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if _, err := awsconfig.Credentials(ctx, cfg.Credentials); err != nil { // now rather than at the first blob
		return nil, fmt.Errorf("%s: %w: %w", uri, err, fault.ErrConfig)
	}
	r := &S3{place: at, creds: cfg.Credentials, stall: stall, endpoint: o.Endpoint, region: cfg.Region, flags: o.Flags}
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

// Open streams a part of an object.
func (r *S3) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := r.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (r *S3) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	return openPart(ctx, r, part{name, off, n, version}, r.stall)
}

func (r *S3) ask(ctx context.Context, p part) (answer, error) {
	in := &s3.GetObjectInput{Bucket: &r.bucket, Key: aws.String(r.prefix + p.name), RequestPayer: r.payer}
	if h := p.header(); h != "" {
		in.Range = &h
	}
	if p.version != "" {
		in.IfMatch = &p.version
	}
	out, err := r.client.GetObject(ctx, in)
	if err != nil {
		return answer{}, r.failed(ctx, "get", p.name, err)
	}
	a := answer{body: out.Body, length: -1, ranged: aws.ToString(out.ContentRange), version: aws.ToString(out.ETag)}
	if out.ContentLength != nil {
		a.length = *out.ContentLength
	}
	return a, nil
}

// Stat returns the size of an object in bytes.
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

// List yields the objects below a prefix, page by page.
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
				if strings.HasSuffix(name, "/") { // a folder created in a console
					continue
				}
				if !yield(Blob{Name: name, Size: aws.ToInt64(o.Size)}, nil) {
					return
				}
			}
		}
	}
}
