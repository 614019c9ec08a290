package repo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// AzureOptions configure access to containers of Azure Blob Storage. Without KeyFile the credentials come from the environment, in
// the order of the SDK: AZURE_… variables, workload identity, managed identity, the CLI.
type AzureOptions struct {
	Account  string // the storage account
	Endpoint string // the URL of the account; "" for https://ACCOUNT.blob.core.windows.net
	KeyFile  string // file with a key of the account, or with a shared access signature
	Flags    string // prefix of the names of these settings, for messages: "" or "coordinator-"
	// Stall limits the time without a byte of a response; 0 means 30 s.
	Stall time.Duration
}

// Azure is a repository in a container of Azure Blob Storage, read by ranges.
type Azure struct {
	place
	client    *container.Client
	anonymous bool
	ends      time.Time // when the shared access signature expires; zero if that is unknown
	stall     time.Duration
	endpoint  string // without a slash at the end
	flags     string
}

// NewAzure opens azblob://container/prefix. Errors: fault.ErrConfig for an invalid URI or invalid options, and if the environment holds no
// credentials.
func NewAzure(ctx context.Context, uri string, o AzureOptions) (*Azure, error) {
	at, ok := placeOf(uri)
	if !ok {
		return nil, fmt.Errorf("repository URI: want azblob://container/prefix, without account or key (--%[1]sazure-account names the account, --%[1]sazure-key-file its key): %[2]w", o.Flags, fault.ErrConfig)
	}
	if o.Account == "" && o.Endpoint == "" {
		return nil, fmt.Errorf("%s: the storage account is unknown, give --%sazure-account: %w", uri, o.Flags, fault.ErrConfig)
	}
	a := &Azure{place: at, stall: cmp.Or(o.Stall, defaultStall), endpoint: strings.TrimSuffix(cmp.Or(o.Endpoint, "https://"+o.Account+".blob.core.windows.net"), "/"), flags: o.Flags}
	u, err := url.Parse(a.endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("--%sazure-endpoint %q: want a URL such as https://ACCOUNT.blob.core.windows.net, without a signature: %w", o.Flags, o.Endpoint, fault.ErrConfig)
	}
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		// The retry decorator resumes broken bodies and knows when to stop; one layer retries.
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Transport: &http.Client{Transport: bounded{tracing.Transport(newTransport(a.stall), role(o.Flags))}, CheckRedirect: notFollowed},
		Telemetry: policy.TelemetryOptions{Disabled: true},
	}}
	if err := a.connect(ctx, u, o, options); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", uri, err, fault.ErrConfig)
	}
	return a, nil
}

// openVersion opens a part of a version of a blob.
func (a *Azure) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	return openPart(ctx, a, part{name, off, n, version}, a.stall)
}

// Open streams a part of a blob.
func (a *Azure) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := a.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (a *Azure) ask(ctx context.Context, p part) (answer, error) {
	in := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: p.off, Count: max(p.n, 0)}}
	if p.version != "" {
		in.AccessConditions = ifMatch(p.version)
	}
	out, err := a.client.NewBlobClient(a.prefix+p.name).DownloadStream(ctx, in)
	if err != nil {
		return answer{}, a.failed(ctx, "get", p.name, err)
	}
	is := answer{body: out.Body, length: -1, version: etag(out.ETag)}
	if out.ContentLength != nil {
		is.length = *out.ContentLength
	}
	if out.ContentRange != nil {
		is.ranged = *out.ContentRange
	}
	return is, nil
}

// ifMatch returns the condition that a blob has the given version.
func ifMatch(version string) *blob.AccessConditions {
	tag := azcore.ETag(version)
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &tag}}
}

// etag returns the version in an ETag; "" if none is stated.
func etag(tag *azcore.ETag) string {
	if tag == nil {
		return ""
	}
	return string(*tag)
}

// Stat returns the size of a blob in bytes.
func (a *Azure) Stat(ctx context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	rctx, cancel := context.WithTimeout(ctx, a.stall)
	defer cancel()
	out, err := a.client.NewBlobClient(a.prefix+name).GetProperties(rctx, nil)
	if err != nil {
		return 0, a.failed(ctx, "head", name, err)
	}
	if out.ContentLength == nil {
		return 0, fmt.Errorf("%s: the store answered without a length: %w", a.what("head", name), fault.ErrUnavailable)
	}
	return *out.ContentLength, nil
}

// List yields the blobs below a prefix, page by page.
func (a *Azure) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		for item, err := range a.items(ctx, prefix, "") {
			if err != nil {
				yield(Blob{}, err)
				return
			}
			name, below := strings.CutPrefix(*item.Name, a.prefix)
			if !below || strings.HasSuffix(name, "/") || isFolder(item) {
				continue
			}
			if item.Properties == nil || item.Properties.ContentLength == nil {
				yield(Blob{}, fmt.Errorf("%s: the store states no size: %w", a.what("list", name), fault.ErrUnavailable))
				return
			}
			if !yield(Blob{Name: name, Size: *item.Properties.ContentLength}, nil) {
				return
			}
		}
	}
}

// items yields the entries of listings, page by page, starting at a name ("" for all). Stores that do not support a start return all names.
func (a *Azure) items(ctx context.Context, prefix, from string) iter.Seq2[*container.BlobItem, error] {
	return func(yield func(*container.BlobItem, error) bool) {
		whole := a.prefix + prefix
		in := &container.ListBlobsFlatOptions{Prefix: &whole, Include: container.ListBlobsInclude{Metadata: true}}
		if from != "" {
			start := a.prefix + from
			in.StartFrom = &start
		}
		for pages := a.client.NewListBlobsFlatPager(in); pages.More(); {
			rctx, cancel := context.WithTimeout(ctx, 4*a.stall)
			page, err := pages.NextPage(rctx)
			cancel()
			if err != nil {
				yield(nil, a.failed(ctx, "list", prefix, err))
				return
			}
			if page.Segment == nil {
				continue
			}
			for _, item := range page.Segment.BlobItems {
				if item != nil && item.Name != nil && !yield(item, nil) {
					return
				}
			}
		}
	}
}

// isFolder reports whether an entry is a folder of an account with a hierarchical namespace.
func isFolder(item *container.BlobItem) bool {
	for key, value := range item.Metadata {
		if strings.EqualFold(key, "hdi_isfolder") && value != nil && strings.EqualFold(*value, "true") {
			return true
		}
	}
	return false
}

// Store returns the whole container.
func (a *Azure) Store() (Repository, bool) {
	at, ok := a.whole()
	whole := *a
	whole.place = at
	return &whole, ok
}

// Above returns the container with the prefix shortened by one level; false without a prefix.
func (a *Azure) Above() (Repository, bool) {
	at, ok := a.above()
	above := *a
	above.place = at
	return &above, ok
}
