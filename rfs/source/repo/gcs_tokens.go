package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// gcsScope is the smallest scope that covers reading and, for buckets of failed documents and of the state of the work, writing. The
// permissions of the credentials may restrict it.
const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// tokenTimeout bounds a request for a token.
const tokenTimeout = 30 * time.Second

// tokens returns the token for requests, and replaces it when the store no longer accepts it. It is safe for concurrent use.
type tokens struct {
	make func(ctx context.Context) (oauth2.TokenSource, error) // returns a new source, without the cache of an earlier one

	mu     sync.Mutex
	source oauth2.TokenSource
	proven string // a token that the store has accepted
}

// googleTokens returns the source of tokens for an endpoint; nil if it gets no credentials. The credentials of the environment were
// configured for Google, so they are only sent to Google's hosts. A token is as sensitive as a password: without TLS it is only sent to
// this machine.
func googleTokens(endpoint *url.URL, o GCSOptions) (*tokens, error) {
	host := endpoint.Hostname()
	client := &http.Client{Transport: newTransport(tokenTimeout), Timeout: tokenTimeout, CheckRedirect: notFollowed}
	if o.KeyFile == "" {
		if endpoint.Scheme != "https" || host != "googleapis.com" && !strings.HasSuffix(host, ".googleapis.com") {
			return nil, nil
		}
		return &tokens{make: func(ctx context.Context) (oauth2.TokenSource, error) {
			c, err := google.FindDefaultCredentials(context.WithValue(ctx, oauth2.HTTPClient, client), gcsScope)
			if err != nil {
				return nil, fmt.Errorf("no Google credentials, give --%sgcs-key-file, or set GOOGLE_APPLICATION_CREDENTIALS, or run on a machine or in a pod that has a service account: %w: %w", o.Flags, err, fault.ErrConfig)
			}
			return c.TokenSource, nil
		}}, nil
	}
	if endpoint.Scheme != "https" && !isLoopback(host) {
		return nil, fmt.Errorf("--%[1]sgcs-endpoint %[2]s has no TLS, so that the tokens of --%[1]sgcs-key-file could be read on the way: give an https:// address, or no key: %[3]w", o.Flags, endpoint, fault.ErrConfig)
	}
	return &tokens{make: func(ctx context.Context) (oauth2.TokenSource, error) {
		c, err := keyFile(context.WithValue(ctx, oauth2.HTTPClient, client), o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--%sgcs-key-file: %w: %w", o.Flags, err, fault.ErrConfig)
		}
		return c.TokenSource, nil
	}}, nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// maxKeyFile bounds a file of credentials, in bytes.
const maxKeyFile = 1 << 20

// keyFile reads Google credentials of any form. Its errors do not quote the content.
func keyFile(ctx context.Context, path string) (*google.Credentials, error) {
	b, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	var form struct {
		Type google.CredentialsType `json:"type"`
	}
	if json.Unmarshal(b, &form) != nil || form.Type == "" {
		return nil, fmt.Errorf("%s: want the JSON file of a service account, as the console or gcloud writes it", path)
	}
	c, err := google.CredentialsFromJSONWithType(ctx, b, form.Type, gcsScope)
	if err != nil {
		return nil, fmt.Errorf("%s: not a valid file of credentials of the type %.40q", path, form.Type)
	}
	return c, nil
}

// readSecret reads a file of credentials.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxKeyFile {
		return nil, fmt.Errorf("%s: too long for a file of credentials", path)
	}
	return os.ReadFile(path)
}

// get returns the token of the next request. Errors: fault.ErrConfig if the credentials are refused, fault.ErrUnavailable if their issuer
// does not answer.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.source == nil {
		source, err := t.make(context.WithoutCancel(ctx)) // it outlives the request
		if err != nil {
			return "", err
		}
		t.source = source
	}
	token, err := t.source.Token()
	if err != nil {
		return "", tokenError(err)
	}
	return token.AccessToken, nil
}

// tokenError returns the reason for a missing token, without the issuer's response, which may quote the request.
func tokenError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return fmt.Errorf("no Google token: %w: %w", err, fault.ErrUnavailable)
	}
	status := 0
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	if passes(status) {
		return fmt.Errorf("no Google token: its issuer answers %d: %w", status, fault.ErrUnavailable)
	}
	return fmt.Errorf("no Google token: its issuer refuses the credentials (%d %s): is the key deleted or disabled, or the clock of this machine wrong?: %w", status, sentence(refused.ErrorCode), fault.ErrConfig)
}

// accepted records that the store accepts a token.
func (t *tokens) accepted(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.proven = token
}

// renew drops a token that the store accepted before and now refuses, so that the next request gets another one. It returns false for
// credentials that were never accepted.
func (t *tokens) renew(token string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == "" || token != t.proven {
		return false
	}
	t.source, t.proven = nil, ""
	return true
}
