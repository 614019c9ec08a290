// Package target is the client of the target cluster: OpenSearch, or Elasticsearch
// since 7.10. It never repeats a request and never follows a redirect. Every error
// has a category of rfs/base/fault, and no error or log line contains a password.
package target

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Config holds the settings of a Client.
type Config struct {
	Role               string // of the cluster in errors: source, target, coordinator; "" is target
	URL                string // http(s)://host:port[/prefix], several separated by commas; a user in it is used if Username is ""
	Username, Password string
	APIKey             string      // "id:key", plain or in base64; "" for none
	Token              string      // bearer token; "" for none
	TokenFile          string      // file with a bearer token, read again when it changes; "" for none
	Headers            http.Header // additional headers of each request
	Proxy              string      // http://, https:// or socks5://HOST:PORT; "none"; "" for the proxy of the environment

	CACert                string // PEM file of the only trusted CAs; "" for the system's CAs
	ClientCert, ClientKey string // PEM files, both or none
	Insecure              bool   // accept any certificate

	SigV4 *SigV4 // signs every request; nil for none

	// Discover also uses the other nodes of the cluster, over TLS verified by CACert.
	Discover bool

	// RunPipelines lets default ingest pipelines of indices change documents. Final
	// pipelines always run; FinalPipelines returns them.
	RunPipelines bool
	// CompressRequests sends bulk bodies as gzip, as long as that is faster.
	CompressRequests bool
	// PlainAnswers requests uncompressed answers.
	PlainAnswers bool

	MaxConnections int           // maximum number of idle connections; 0 means 8
	Timeout        time.Duration // of one request with its answer; 0 means two minutes
	UserAgent      string

	// Memory limits the memory of responses, together with other users of the budget; nil: a budget of the client's own.
	Memory *budget.Budget

	// Log receives the addresses that are left out, with reasons; nil: they are not logged.
	Log *slog.Logger

	// Purpose is the purpose of the requests in traces; "": Role.
	Purpose string

	// Wrap decorates the transport; nil for none.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// spare connections keep leases alive while bulk requests hold the others.
const spare = 8

func (c Config) withDefaults() Config {
	if c.MaxConnections <= 0 {
		c.MaxConnections = 8
	}
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Minute
	}
	if c.Role == "" {
		c.Role = "target"
	}
	if c.UserAgent == "" {
		c.UserAgent = "rfsd"
	}
	if c.Memory == nil {
		c.Memory = budget.New(maxAnswers, 0)
	}
	return c
}

// Risks returns the security risks of the connection that this configuration leaves, with remedies.
func (c Config) Risks() []string {
	if c.URL == "" {
		return nil
	}
	given, err := Addresses(c.URL)
	if err != nil {
		return nil
	}
	var all []string
	role := c.withDefaults().Role
	for _, u := range given {
		if c.Insecure && u.Scheme == "https" {
			all = append(all, fmt.Sprintf("the certificate of the %s %s is not verified (--%s-insecure): all that is between can read credentials and change documents; give --%s-cacert instead", role, u.Host, role, role))
		}
		if u.Scheme == "http" && !IsLoopback(u) && (c.identity() != anonymous || c.Password != "" || given[0].User != nil || c.SigV4 != nil) {
			all = append(all, fmt.Sprintf("credentials for the %s go to %s over plain http, where the network can read them; use https", role, u.Host))
		}
	}
	return all
}

// IsLoopback reports whether an address is a loopback address.
func IsLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// tls returns the TLS configuration, with certificates and keys from the files.
func (c Config) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure} //nolint:gosec // the user asked for it
	if c.CACert != "" {
		pem, err := os.ReadFile(c.CACert)
		if err != nil {
			return nil, fmt.Errorf("--%s-cacert: %w: %w", c.Role, err, fault.ErrConfig)
		}
		// Only this file: certificates of the system's CAs are not accepted for this cluster.
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--%s-cacert %s holds no PEM certificate: %w", c.Role, c.CACert, fault.ErrConfig)
		}
		conf.RootCAs = pool
	}
	if (c.ClientCert == "") != (c.ClientKey == "") {
		return nil, fmt.Errorf("a client certificate needs its key, and a key its certificate: %w", fault.ErrConfig)
	}
	if c.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w: %w", c.ClientCert, c.ClientKey, err, fault.ErrConfig)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// refuseEnvironment returns an error if a variable of the client library is set that would silently override settings such as
// timeouts and routing.
func refuseEnvironment(environ []string) error {
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OPENSEARCH_GO_") && value != "" {
			return fmt.Errorf("unset %s: it would override the options of this program: %w", name, fault.ErrConfig)
		}
	}
	return nil
}
