// Package client sends requests to the APIs of nodes, in turn until one answers.
package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Options configures a Client.
type Options struct {
	// Nodes are tried in turn: host:port, or the path of a socket.
	Nodes    []string
	Identity *cert.Identity // needed for nodes beyond loopback
	Timeout  time.Duration  // of a request to one node; 0 is 5 s
}

// Client sends requests to nodes.
type Client struct {
	nodes   []node
	timeout time.Duration
}

type node struct {
	name string
	base string
	bare bool // a port without a certificate
	http *http.Client
}

// New returns a Client. It returns fault.ErrConfig if a node requires a certificate.
func New(o Options) (*Client, error) {
	c := &Client{timeout: o.Timeout}
	if c.timeout <= 0 {
		c.timeout = 5 * time.Second
	}
	if len(o.Nodes) == 0 {
		return nil, fmt.Errorf("no node is named: --node HOST:PORT or a socket's path: %w", fault.ErrConfig)
	}
	for _, name := range o.Nodes {
		n, err := reach(name, o.Identity)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	return c, nil
}

func reach(name string, id *cert.Identity) (node, error) {
	n := node{name: name, base: "http://rfsd"}
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	tr := &http.Transport{MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second}
	n.http = &http.Client{Transport: tr}
	if path := strings.TrimPrefix(name, "unix://"); strings.Contains(path, "/") && !strings.Contains(path, "://") {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
		return n, nil
	}
	host, _, err := net.SplitHostPort(name)
	if err != nil {
		return n, fmt.Errorf("invalid node %q: want host:port without a scheme, or the path of a socket: %w", name, fault.ErrConfig)
	}
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", name) }
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case id != nil:
		n.base = "https://rfsd"
		if tr.TLSClientConfig, err = id.Client("http/1.1"); err != nil {
			return n, err
		}
	case local:
		n.bare = true
	default:
		return n, fmt.Errorf("node %s needs a certificate: --tls-cert, --tls-key, --tls-ca and --fleet: %w", name, fault.ErrConfig)
	}
	return n, nil
}

// RefusedError is a rejection by a node. Other nodes would also reject the request.
type RefusedError struct {
	Node   string
	Code   int
	Words  string
	reason error
}

// ErrNotKnown means that an order may be in force: the node that received it, or the store, did not answer.
var ErrNotKnown = errors.New("the order may have been stored: `rfsctl status` shows whether it is in force")

// Error returns the node's message.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Node, e.Words) }

// Unwrap returns the category.
func (e *RefusedError) Unwrap() error { return e.reason }

// Get sends a request to the nodes in turn and decodes the first response. It returns the name of the node that answered.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) (string, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil, decode(out))
}

// decode returns a function that decodes a JSON response.
func decode(out any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(io.LimitReader(r, 256<<20)).Decode(out) }
}

// Order sends an order to the first node that answers, and returns the node's name and the resulting state. It waits longer than a node
// takes to store an order. It returns ErrNotKnown if a node that may have received the order did not answer, and no other did.
func (c *Client) Order(ctx context.Context, kind session.OrderKind, with api.OrderArguments) (who string, done status.Ordered, err error) {
	body, err := json.Marshal(with)
	if err != nil {
		return "", done, fmt.Errorf("request: %w", err)
	}
	patient := *c
	patient.timeout = max(c.timeout, orderTimeout)
	who, err = patient.do(ctx, http.MethodPost, "/v1/"+string(kind), body, decode(&done))
	return who, done, err
}

// orderTimeout is longer than the time that a node waits for the store and for other nodes.
const orderTimeout = 20 * time.Second

func (c *Client) do(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) (string, error) {
	var errs []error
	for _, n := range c.nodes {
		err := c.one(ctx, n, method, path, body, read)
		var refused *RefusedError
		var dial *net.OpError
		if method != http.MethodGet && errors.Is(err, fault.ErrUnavailable) && !errors.As(err, &refused) && !(errors.As(err, &dial) && dial.Op == "dial") {
			err = fmt.Errorf("%w: %w", err, ErrNotKnown)
		}
		switch {
		case err == nil:
			return n.name, nil
		case ctx.Err() == nil && (!errors.As(err, &refused) || refused.Code == http.StatusServiceUnavailable):
			errs = append(errs, err)
		case errors.Is(errors.Join(errs...), ErrNotKnown):
			return n.name, errors.Join(append(errs, err)...)
		default:
			return n.name, err
		}
	}
	return "", errors.Join(errs...)
}

func (c *Client) one(ctx context.Context, n node, method, path string, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	res, err := c.send(ctx, n, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := read(res.Body); err != nil {
		return fmt.Errorf("%s: answer: %w: %w", n.name, err, fault.ErrUnavailable)
	}
	return nil
}

func (c *Client) send(ctx context.Context, n node, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, n.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", n.name, err, fault.ErrConfig)
	}
	res, err := n.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		if remedy := n.remedy(err); remedy != "" {
			return nil, fmt.Errorf("%s: %s: %w (%w)", n.name, remedy, fault.ErrConfig, err)
		}
		return nil, fmt.Errorf("%s does not answer: %w: %w", n.name, err, fault.ErrUnavailable)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if n.bare && res.StatusCode == http.StatusBadRequest && res.Header.Get("Content-Type") != "application/json" {
		return nil, &RefusedError{Node: n.name, Code: res.StatusCode, Words: wantsCertificate, reason: fault.ErrConfig}
	}
	var f api.Failed
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil || json.Unmarshal(b, &f) != nil || f.Error == "" {
		f.Error = fmt.Sprintf("status %d", res.StatusCode)
	}
	refused := &RefusedError{Node: n.name, Code: res.StatusCode, Words: f.Error, reason: fault.ErrRejected}
	switch f.Category {
	case "unavailable":
		refused.reason = fault.ErrUnavailable
	case "unknown":
		refused.reason = ErrNotKnown
	case "config":
		refused.reason = fault.ErrConfig
	}
	return nil, refused
}

const wantsCertificate = "the port requires a certificate: give --tls-cert, --tls-key, --tls-ca and --fleet, or name the node's socket"

// remedy returns the remedy for an error of a connection that was established but failed; "" if the node may only be unavailable.
func (n node) remedy(err error) string {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var alert *net.OpError // its Op is "remote error" if the node sent a TLS alert
	switch {
	case n.bare && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "malformed HTTP response")):
		return wantsCertificate // it closed the connection at the first byte that was not TLS
	case n.bare:
		return ""
	case errors.As(err, &name):
		if fleet := cert.Fleet(name.Certificate); fleet != "" {
			return fmt.Sprintf("the node is of the fleet %s: give --fleet %s", fleet, fleet)
		}
		return "the certificate is not of a node: check the address"
	case errors.As(err, &authority):
		return "the node's certificate is not of the authority in --tls-ca"
	case errors.As(err, &invalid):
		return "the node's certificate is not valid; check the clocks, or make another with `rfsctl cert create`"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "the node rejects the certificate in --tls-cert: it was issued by another authority, or has expired"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"): // net/http has no error value for it
		return "the port has no certificates: leave out --tls-cert, --tls-key and --tls-ca"
	}
	return ""
}

// Follow calls each with every status of the first node that answers, until ctx is done, the connection breaks or each returns false.
func (c *Client) Follow(ctx context.Context, each func(json.RawMessage) bool) error {
	var errs []error
	for _, n := range c.nodes {
		res, err := c.send(ctx, n, http.MethodGet, "/v1/stream", nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer res.Body.Close() //nolint:revive // only one is open: it returns
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			b, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if ok && !each(b) {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s ended the stream: %w", n.name, errors.Join(lines.Err(), fault.ErrUnavailable))
	}
	return errors.Join(errs...)
}

// Dial returns a client and the base URL of the first node that answers, for a proxy. The node's certificate is verified.
func (c *Client) Dial(ctx context.Context) (*http.Client, string, error) {
	var errs []error
	for _, n := range c.nodes {
		var well api.Done
		if err := c.one(ctx, n, http.MethodGet, "/healthz", nil, decode(&well)); err != nil {
			errs = append(errs, err)
			continue
		}
		return n.http, n.base, nil
	}
	return nil, "", errors.Join(errs...)
}

// Session returns the session of the process behind a socket.
func Session(ctx context.Context, path string) (string, error) {
	c, err := New(Options{Nodes: []string{path}})
	if err != nil {
		return "", err
	}
	var r status.Report
	if _, err := c.Get(ctx, "/v1/status", nil, &r); err != nil {
		return "", err
	}
	if r.Migration == nil {
		return "", fmt.Errorf("%s has not read its session yet: %w", path, fault.ErrUnavailable)
	}
	return r.Migration.Session, nil
}
