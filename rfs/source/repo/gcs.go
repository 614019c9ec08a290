package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// GCSOptions configure access to buckets of Google Cloud Storage. Without KeyFile the credentials come from the environment:
// GOOGLE_APPLICATION_CREDENTIALS (also for workload identity federation), gcloud's, or the service account of the machine or pod.
type GCSOptions struct {
	Endpoint string // "" for Google's; http:// is an emulator, which gets no credentials
	KeyFile  string // JSON file of a service account, or of another form of Google credentials
	Flags    string // prefix of the names of these settings, for messages: "" or "coordinator-"
	// Stall limits the time without a byte of a response; 0 means 30 s.
	Stall time.Duration
}

// GCS is a repository in a bucket of Google Cloud Storage, read by ranges through its JSON API.
type GCS struct {
	place
	client   *http.Client
	tokens   *tokens // nil: requests without credentials
	stall    time.Duration
	endpoint string // without a slash at the end
	flags    string
}

const (
	googleEndpoint = "https://storage.googleapis.com"
	// maxListing bounds the response to a request for a page of a listing, in bytes: 1,000 names of 1 KiB, including escapes.
	maxListing = 16 << 20
	listed     = 1000 // names per page
	// maxRefusal bounds the part of the body of an error that is read, in bytes.
	maxRefusal = 64 << 10
)

// NewGCS opens gs://bucket/prefix. Errors: fault.ErrConfig for an invalid URI or invalid options, and if the environment holds no
// credentials.
func NewGCS(ctx context.Context, uri string, o GCSOptions) (*GCS, error) {
	at, ok := placeOf(uri)
	if !ok {
		return nil, fmt.Errorf("repository URI: want gs://bucket/prefix, without user or password (credentials are in --%sgcs-key-file or the environment): %w", o.Flags, fault.ErrConfig)
	}
	stall := cmp.Or(o.Stall, defaultStall)
	g := &GCS{
		place: at, client: &http.Client{Transport: tracing.Transport(newTransport(stall), role(o.Flags)), CheckRedirect: notFollowed}, stall: stall,
		endpoint: strings.TrimSuffix(cmp.Or(o.Endpoint, googleEndpoint), "/"), flags: o.Flags,
	}
	u, err := url.Parse(g.endpoint)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("--%sgcs-endpoint %q: want a URL such as %s: %w", o.Flags, o.Endpoint, googleEndpoint, fault.ErrConfig)
	}
	if g.tokens, err = googleTokens(u, o); err != nil || g.tokens == nil {
		return g, err
	}
	if _, err := g.tokens.get(ctx); err != nil { // now rather than at the first blob
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	return g, nil
}

// object returns the URL of an object, or of all objects for "".
func (g *GCS) object(name string, query url.Values) string {
	address := g.endpoint + "/storage/v1/b/" + url.PathEscape(g.bucket) + "/o"
	if name != "" {
		address += "/" + url.PathEscape(g.prefix+name)
	}
	return address + "?" + query.Encode()
}

// send makes one request. A status other than 2xx is a *refusal.
func (g *GCS) send(ctx context.Context, method, address string, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	req.ContentLength = size
	for k, v := range header {
		req.Header[k] = v
	}
	token := ""
	if g.tokens != nil {
		if token, err = g.tokens.get(ctx); err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // a part is enough
		return nil, &refusal{status: res.StatusCode, header: res.Header, body: b, token: token}
	}
	if g.tokens != nil {
		g.tokens.accepted(token)
	}
	return res, nil
}

// openVersion opens a part of a version of an object.
func (g *GCS) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	return openPart(ctx, g, part{name, off, n, version}, g.stall)
}

// Open streams a part of an object.
func (g *GCS) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := g.openVersion(ctx, name, off, n, "")
	return rc, err
}

// generation is the response header with the version of an object.
const generation = "X-Goog-Generation"

func (g *GCS) ask(ctx context.Context, p part) (answer, error) {
	query, header := url.Values{"alt": {"media"}}, http.Header{}
	if h := p.header(); h != "" {
		header.Set("Range", h)
	}
	if p.version != "" {
		query.Set("ifGenerationMatch", p.version)
	}
	res, err := g.send(ctx, http.MethodGet, g.object(p.name, query), header, nil, 0)
	if err != nil {
		return answer{}, g.failed(ctx, "get", p.name, err)
	}
	return answer{body: res.Body, length: res.ContentLength, ranged: res.Header.Get("Content-Range"), version: res.Header.Get(generation)}, nil
}

// gcsObject holds the fields of an object in the JSON API, which writes numbers of 64 bits as text.
type gcsObject struct {
	Name       string `json:"name"`
	Size       string `json:"size"`
	Generation string `json:"generation"`
}

// size returns the length of an object in bytes.
func (o gcsObject) size() (int64, error) {
	n, err := strconv.ParseInt(o.Size, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the store states the size %.40q: %w", o.Size, fault.ErrUnavailable)
	}
	return n, nil
}

// Stat returns the size of an object in bytes.
func (g *GCS) Stat(ctx context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	o, err := g.about(ctx, name)
	if err != nil {
		return 0, err
	}
	return o.size()
}

func (g *GCS) about(ctx context.Context, name string) (o gcsObject, err error) {
	rctx, cancel := context.WithTimeout(ctx, g.stall)
	defer cancel()
	res, err := g.send(rctx, http.MethodGet, g.object(name, url.Values{"fields": {"name,size,generation"}}), nil, nil, 0)
	if err != nil {
		return o, g.failed(ctx, "head", name, err)
	}
	return o, g.decode(ctx, "head", name, res, &o)
}

// gcsPage is a page of a listing.
type gcsPage struct {
	Items []gcsObject `json:"items"`
	Next  string      `json:"nextPageToken"`
}

// page requests a page of the objects below a prefix: starting at a name, or with the token at the end of the previous page.
func (g *GCS) page(ctx context.Context, prefix, from, token string) (p gcsPage, err error) {
	query := url.Values{"prefix": {g.prefix + prefix}, "maxResults": {strconv.Itoa(listed)}, "fields": {"items(name,size,generation),nextPageToken"}}
	if from != "" {
		query.Set("startOffset", g.prefix+from)
	}
	if token != "" {
		query.Set("pageToken", token)
	}
	rctx, cancel := context.WithTimeout(ctx, 4*g.stall)
	defer cancel()
	res, err := g.send(rctx, http.MethodGet, g.object("", query), nil, nil, 0)
	if err != nil {
		return p, g.failed(ctx, "list", prefix, err)
	}
	if err := g.decode(ctx, "list", prefix, res, &p); err != nil {
		return p, err
	}
	if p.Next != "" && p.Next == token {
		return p, fmt.Errorf("%s: the store repeats a page: %w", g.what("list", prefix), fault.ErrUnavailable)
	}
	return p, nil
}

// decode decodes the body of a response and closes it.
func (g *GCS) decode(ctx context.Context, verb, name string, res *http.Response, v any) error {
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxListing+1))
	if err != nil {
		return g.failed(ctx, verb, name, err)
	}
	if len(b) > maxListing {
		err = errors.New("it is too long")
	} else {
		err = json.Unmarshal(b, v)
	}
	if err != nil { // a proxy, or a store of another kind
		return fmt.Errorf("%s: the answer is not the one of Google Cloud Storage: %w: %w", g.what(verb, name), err, fault.ErrUnavailable)
	}
	return nil
}

// List yields the objects below a prefix, page by page.
func (g *GCS) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		for token, more := "", true; more; more = token != "" {
			p, err := g.page(ctx, prefix, "", token)
			if err != nil {
				yield(Blob{}, err)
				return
			}
			for _, o := range p.Items {
				name, below := strings.CutPrefix(o.Name, g.prefix)
				if !below || strings.HasSuffix(name, "/") { // a folder created in a console
					continue
				}
				size, err := o.size()
				if err != nil {
					err = fmt.Errorf("%s: %w", g.what("list", name), err)
				}
				if !yield(Blob{Name: name, Size: size}, err) || err != nil {
					return
				}
			}
			token = p.Next
		}
	}
}

// Store returns the whole bucket.
func (g *GCS) Store() (Repository, bool) {
	at, ok := g.whole()
	whole := *g
	whole.place = at
	return &whole, ok
}

// Above returns the bucket with the prefix shortened by one level; false without a prefix.
func (g *GCS) Above() (Repository, bool) {
	at, ok := g.above()
	above := *g
	above.place = at
	return &above, ok
}
