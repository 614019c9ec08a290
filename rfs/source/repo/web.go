package repo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// Web is a repository behind a web server, as repositories of the type url are. It has no listings, and no credentials are sent.
type Web struct {
	base   *url.URL // its path ends in "/"
	client *http.Client
	stall  time.Duration
}

// NewWeb opens http://host/path or https://host/path. stall limits the time without a byte of a response; 0 means 30 s. Errors:
// fault.ErrConfig for an invalid address.
func NewWeb(address string, stall time.Duration) (*Web, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("repository URI: want https://host/path, without user, password or query: %w", fault.ErrConfig)
	}
	stall = cmp.Or(stall, defaultStall)
	return &Web{base: u.JoinPath("/"), client: &http.Client{Transport: tracing.Transport(newTransport(stall), role("")), CheckRedirect: notFollowed}, stall: stall}, nil
}

// URI returns the address.
func (w *Web) URI() string { return strings.TrimSuffix(w.base.String(), "/") }

// Open streams a part of a file.
func (w *Web) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := w.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (w *Web) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	return openPart(ctx, w, part{name, off, n, version}, w.stall)
}

func (w *Web) ask(ctx context.Context, p part) (answer, error) {
	header := http.Header{}
	if h := p.header(); h != "" {
		header.Set("Range", h)
	}
	switch {
	case strings.HasPrefix(p.version, `"`):
		header.Set("If-Match", p.version)
	case p.version != "":
		header.Set("If-Unmodified-Since", p.version)
	}
	res, err := w.send(ctx, http.MethodGet, p.name, header)
	if err != nil {
		return answer{}, err
	}
	return answer{body: res.Body, length: res.ContentLength, ranged: res.Header.Get("Content-Range"), version: webVersion(res.Header)}, nil
}

// webVersion returns the version of a file: a strong ETag, else the time of the last change; "" without both.
func webVersion(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// Stat returns the size of a file in bytes.
func (w *Web) Stat(ctx context.Context, name string) (int64, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	res, err := w.send(ctx, http.MethodHead, name, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.ContentLength < 0 {
		return 0, fmt.Errorf("head %s: the server answers without a length: %w", name, fault.ErrUnavailable)
	}
	return res.ContentLength, nil
}

// List yields fault.ErrUnsupported: a web server has no listings.
func (w *Web) List(_ context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		yield(Blob{}, fmt.Errorf("list %s*: a web server lists no files: %w", prefix, fault.ErrUnsupported))
	}
}

// send makes one request. Errors have their category.
func (w *Web) send(ctx context.Context, method, name string, header http.Header) (*http.Response, error) {
	verb := strings.ToLower(method)
	at := *w.base
	at.Path, at.RawPath = at.Path+name, ""
	what := verb + " " + at.String()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, err, fault.ErrConfig)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Accept-Encoding", "identity") // bytes are read as they are stored
	res, err := w.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		return nil, fmt.Errorf("%s: %w", what, silence{where: w.base.Scheme + "://" + w.base.Host, setting: "--repo-uri", authority: "SSL_CERT_FILE", remedy: "check --repo-uri and the network"}.of(err))
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusPartialContent {
		return res, nil
	}
	res.Body.Close()
	return nil, w.failed(what, name, res)
}

func (w *Web) failed(what, name string, res *http.Response) error {
	if host := (&refusal{status: res.StatusCode, header: res.Header}).elsewhere(); host != "" {
		return redirected(what, host, "--repo-uri")
	}
	switch {
	case passes(res.StatusCode):
		return fmt.Errorf("%s: the server answers %d%s: %w", what, res.StatusCode, later(res.StatusCode), fault.ErrUnavailable)
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case res.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fault.Corrupt(name, "", -1, "the object ends before the range that is needed")
	case res.StatusCode == http.StatusPreconditionFailed:
		return fault.Corrupt(name, "", -1, "the object changed while it was read")
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: the server answers %d; it must give the files to everyone, because no credentials are sent: %w", what, res.StatusCode, fault.ErrConfig)
	}
	return fmt.Errorf("%s: the server answers %d: %w", what, res.StatusCode, fault.ErrConfig)
}

// Above returns the address one level above; false at the root of the server.
func (w *Web) Above() (Repository, bool) {
	above, parent := *w, *w.base
	parent.Path, _ = path.Split(strings.TrimSuffix(w.base.Path, "/"))
	parent.RawPath = ""
	above.base = &parent
	return &above, w.base.Path != "/"
}
