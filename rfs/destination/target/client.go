package target

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/opensearch-project/opensearch-go/v4/opensearchtransport"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// Client is a connection to one cluster. It is safe for concurrent use.
type Client struct {
	conf      Config
	name      string
	plain     string      // host:port of an address with http://; "" otherwise, and with several addresses
	answered  atomic.Bool // a request was answered
	transport *opensearchtransport.Client
	signing   *signing   // nil when requests are not signed
	token     *tokenFile // nil: the credential does not change
	// serverless states that the target is a collection of OpenSearch Serverless; kind is its type, once requested.
	serverless bool
	kind       atomic.Pointer[Collection]
	balancer   *balancer // nil with one address
	gzips      sync.Pool // *squeezer
	encodings  encodings
	answers    sync.Pool // *bytes.Buffer
	leads      leads
}

// who returns the role and the address of the cluster, for errors.
func (c *Client) who() string { return c.conf.Role + " " + c.name }

// New returns a Client after checking the configuration; it sends no request. The client's connections end with ctx or
// Close. Errors are fault.ErrConfig.
func New(ctx context.Context, conf Config) (*Client, error) {
	conf = conf.withDefaults()
	if err := refuseEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	addresses, err := conf.addresses()
	if err != nil {
		return nil, err
	}
	u := addresses[0]
	serverless, err := conf.Serverless()
	if err != nil { // before any request
		return nil, err
	}
	tlsConf, err := conf.tls()
	if err != nil {
		return nil, err
	}
	proxy, err := ProxyOf(conf.Proxy)
	if err != nil {
		return nil, fmt.Errorf("--%s-proxy: %w", conf.Role, err)
	}
	var tr http.RoundTripper = &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     tlsConf,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: conf.MaxConnections + spare,
		IdleConnTimeout:     50 * time.Second, // servers and balancers close after 60 s
		WriteBufferSize:     64 << 10,
		DisableCompression:  conf.PlainAnswers,
	}
	if conf.Wrap != nil {
		tr = conf.Wrap(tr)
	}
	tr = tracing.Transport(tr, cmp.Or(conf.Purpose, conf.Role))
	var sign *signing
	if conf.SigV4 != nil {
		if sign, err = newSigning(ctx, conf, u); err != nil {
			return nil, err
		}
		sign.next = tr
		tr = sign
	}
	tr, token, err := newAuthorizing(conf, tr)
	if err != nil {
		return nil, err
	}
	c := &Client{conf: conf, name: names(addresses), signing: sign, token: token, serverless: serverless}
	if u.Scheme == "http" && len(addresses) == 1 && conf.Proxy == "" {
		c.plain = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
	}
	if len(addresses) > 1 || conf.Discover {
		c.balancer = newBalancer(ctx, conf, addresses, http.Header{"User-Agent": {conf.UserAgent}}, tr)
		tr = c.balancer
	}
	c.transport, err = opensearchtransport.New(opensearchtransport.Config{
		URLs: []*url.URL{u}, Transport: agent{tr, conf.UserAgent}, Context: ctx,
		DisableRetry: true, // the caller decides about retries
		HealthCheck:  opensearchtransport.NoOpHealthCheck, HealthCheckMaxRetries: -1, MaxRetryClusterHealth: -1,
		NodeStatsInterval: -1, ActiveListCap: -1, StandbyRotationInterval: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", conf.Role, u, err, fault.ErrConfig)
	}
	return c, nil
}

// names returns the addresses as text.
func names(addresses []*url.URL) string {
	var all []string
	for _, u := range addresses {
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}

// Refused returns the remedy for a credential that the cluster rejects (status 401).
func (c *Client) Refused() string { return c.conf.Refused() }

// Serverless reports whether the configuration is for a collection of OpenSearch Serverless.
func (c *Client) Serverless() bool { return c.serverless }

// Name returns the URL of the target without user and password; several are separated by commas.
func (c *Client) Name() string { return c.name }

// Close stops the balancer and closes idle connections.
func (c *Client) Close() error {
	if c.balancer != nil {
		c.balancer.close()
	}
	return c.transport.Close()
}

// agent is a transport that sets the User-Agent.
type agent struct {
	next http.RoundTripper
	name string
}

func (a agent) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", a.name)
	return a.next.RoundTrip(req)
}

// Do sends one request and returns the status and the whole response, for any status; the caller checks it.
// path starts with "/" and is escaped. Requests are never repeated. Errors are fault.ErrUnavailable (no
// response; the request may have been applied), fault.ErrConfig (certificates, redirects) and the error of ctx.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, body []byte) (status int, answer []byte, err error) {
	return c.do(ctx, method, path, query, "application/json", body)
}

// Post is Do of a POST request whose body has a content type of its own, such as multipart/form-data with its boundary.
func (c *Client) Post(ctx context.Context, path, contentType string, body []byte) (status int, answer []byte, err error) {
	return c.do(ctx, http.MethodPost, path, nil, contentType, body)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (status int, answer []byte, err error) {
	var buf bytes.Buffer
	res, err := c.send(ctx, method, path, query, contentType, "", body, &buf, maxAnswer)
	if err != nil {
		return 0, nil, err
	}
	if tooMany(buf.Bytes()) {
		return 0, nil, fmt.Errorf("%s %s: %s answers with more than %d values: %w", method, path, c.who(), maxValues, errLongAnswer)
	}
	return res.StatusCode, buf.Bytes(), nil
}

// send does one round trip and reads the answer, of at most limit bytes, into buf.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, contentType, encoding string, body []byte, buf *bytes.Buffer, limit int) (*http.Response, error) {
	if c.serverless {
		if err := mayAsk(method, path); err != nil {
			return nil, err
		}
	}
	inner, cancel := context.WithTimeout(ctx, c.conf.Timeout)
	defer cancel()
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(inner, method, path, in)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", method, path, err, fault.ErrConfig)
	}
	call := method + " " + req.URL.Path
	if method != http.MethodGet && method != http.MethodHead {
		req.GetBody = nil // prevents the HTTP transport from repeating a request that may have arrived
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	if c.signing != nil {
		req.Header.Set(hashHeader, bodyHash(body))
	}
	token := c.token.current()
	res, err := c.transport.Stream(req)
	if res == nil {
		return nil, c.noAnswer(ctx, call, err)
	}
	c.answered.Store(true)
	defer res.Body.Close() //nolint:errcheck // the answer has been read
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return nil, fmt.Errorf("%s: %s redirects to %s; give the address it redirects to: %w",
			call, c.who(), redacted(res.Header.Get("Location")), fault.ErrConfig)
	}
	if err := readAnswer(c.conf.Memory, buf, res.Body, limit); err != nil {
		if errors.Is(err, fault.ErrUnavailable) {
			return nil, fmt.Errorf("%s: %s: %w", call, c.who(), err)
		}
		return nil, c.noAnswer(ctx, call, err)
	}
	if c.signing != nil && c.signing.renew(ctx, res.StatusCode, buf.Bytes()) {
		return nil, fmt.Errorf("%s: %s: the AWS session token had expired and is fetched again: %w", call, c.who(), fault.ErrUnavailable)
	}
	if res.StatusCode == http.StatusUnauthorized && c.token.replaced(token) {
		return nil, fmt.Errorf("%s: %s: the bearer token was refused, and its file has another one: %w", call, c.who(), fault.ErrUnavailable)
	}
	return res, nil
}

func redacted(location string) string {
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return "an address that it does not name"
	}
	return u.Redacted()
}

// noAnswer returns the error for a request without an HTTP response, in its category.
func (c *Client) noAnswer(ctx context.Context, call string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %s: %w", call, c.who(), context.Cause(ctx))
	}
	if unsigned(err) {
		return fmt.Errorf("%s: %s: %w: %w", call, c.who(), err, fault.ErrUnavailable)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %s: no answer within %v: %w", call, c.who(), c.conf.Timeout, fault.ErrUnavailable)
	}
	// The transport quotes method and address, which the error already contains.
	for inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), `"`); inner = errors.Unwrap(err) {
		err = inner
	}
	var record tls.RecordHeaderError
	var named x509.HostnameError
	switch {
	case errors.Is(err, fault.ErrConfig):
		return fmt.Errorf("%s: %s: %w", call, c.who(), err)
	case errors.As(err, &named):
		return fmt.Errorf("%s: %s: its certificate is for other names, give one of them in the address (or --%s-insecure): %w: %w", call, c.who(), c.conf.Role, err, fault.ErrConfig)
	case untrusted(err):
		return fmt.Errorf("%s: %s: its certificate is not trusted, give --%s-cacert (or --%s-insecure): %w: %w", call, c.who(), c.conf.Role, c.conf.Role, err, fault.ErrConfig)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: %s speaks no TLS there, give http:// in its address: %w: %w", call, c.who(), err, fault.ErrConfig)
	}
	if c.plain != "" && !c.answered.Load() && hungUp(err) && speaksTLS(ctx, c.plain) {
		return fmt.Errorf("%s: %s speaks TLS there, give https:// in its address: %w: %w", call, c.who(), err, fault.ErrConfig)
	}
	if !c.answered.Load() {
		return fmt.Errorf("%s: %s does not answer: %w; check --%s-host, and whether the cluster runs: %w", call, c.who(), err, c.conf.Role, fault.ErrUnavailable)
	}
	return fmt.Errorf("%s: %s: %w: %w", call, c.who(), err, fault.ErrUnavailable)
}

// untrusted reports whether an error rejects a certificate.
func untrusted(err error) bool {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	return errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// classifyError returns an error with the target's message for a status of 300 and more. Categories are assigned by fault.CheckStatus.
func (c *Client) classifyError(call string, status int, answer []byte) error {
	err := fault.CheckStatus(call, status, answer)
	var e *fault.StatusError
	if errors.As(err, &e) && errors.Is(err, fault.ErrConfig) && e.Type != "cluster_block_exception" {
		e.User = c.conf.identity()
		if status == http.StatusUnauthorized {
			e.Remedy = c.Refused()
		}
		if c.signing != nil {
			e.Type, e.Reason = awsErrorMessage(answer)
			e.User, e.Remedy = c.signing.identity(), advice(e.Reason)
		}
	}
	return err
}

// awsErrorMessage returns the message of an answer of the AWS front end, {"message":"…"}, else the result of fault.ErrorMessage.
func awsErrorMessage(answer []byte) (kind, reason string) {
	var a struct {
		Message string `json:"message"` // upper or lower case
	}
	if json.Unmarshal(answer, &a) == nil && a.Message != "" {
		return "", a.Message
	}
	return fault.ErrorMessage(answer)
}

// maxRetryAfter limits the pause that a target may request: balancers ask for an hour during an outage of seconds.
const maxRetryAfter = time.Minute

// retryAfter returns the pause in the header Retry-After (seconds or a date), at most maxRetryAfter; 0 without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s > 0 {
		return min(time.Duration(min(s, 3600))*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter)
	}
	return 0
}

// hungUp reports whether the other side ended the connection instead of answering, as a port that speaks TLS does to
// plain HTTP. net/http has no error value for a connection that ends before the request is written, only a message.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "server closed idle connection")
}

// speaksTLS reports whether the other side answers a TLS handshake within 5 s. A server of plain HTTP that is shutting down does not.
func speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent over it
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close() //nolint:errcheck // nothing was sent over it
		return true
	}
	var refused *net.OpError
	return errors.As(err, &refused) && refused.Op == "remote error" // an alert, as for a client without a certificate
}
