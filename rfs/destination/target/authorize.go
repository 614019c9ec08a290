package target

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits for files with credentials.
const (
	mostCredential = 64 << 10 // bytes of a file
	tokenLookEvery = time.Second
)

// authorizing is a transport that adds the credential and the further headers of a cluster to each request.
type authorizing struct {
	next    http.RoundTripper
	headers http.Header
	token   *tokenFile // nil: the credential does not change
}

// newAuthorizing returns a transport with the credential and headers of a configuration, or next if it has none, and the file of its token,
// or nil. Errors are fault.ErrConfig.
func newAuthorizing(conf Config, next http.RoundTripper) (tr http.RoundTripper, token *tokenFile, err error) {
	if err := conf.checkCredentials(); err != nil {
		return nil, nil, err
	}
	a := &authorizing{next: next, headers: http.Header{}}
	for name, values := range conf.Headers {
		a.headers[http.CanonicalHeaderKey(name)] = values
	}
	switch {
	case conf.Username != "":
		a.headers.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(conf.Username+":"+conf.Password)))
	case conf.APIKey != "":
		a.headers.Set("Authorization", "ApiKey "+encodedKey(conf.APIKey))
	case conf.Token != "":
		a.headers.Set("Authorization", "Bearer "+conf.Token)
	case conf.TokenFile != "":
		a.token = &tokenFile{path: conf.TokenFile, now: time.Now}
		if err := a.token.read(); err != nil {
			return nil, nil, fmt.Errorf("bearer token of the %s: %w: %w", conf.Role, err, fault.ErrConfig)
		}
	}
	if a.token == nil && len(a.headers) == 0 {
		return next, nil, nil
	}
	return a, a.token, nil
}

// checkCredentials returns an error for several credentials, and for a credential that a header cannot contain.
func (c Config) checkCredentials() error {
	var given []string
	for _, x := range []struct {
		is   bool
		name string
	}{
		{c.Username != "", "a user with password"}, {c.APIKey != "", "an API key"}, {c.Token != "" || c.TokenFile != "", "a bearer token"},
		{c.SigV4 != nil, "AWS signatures"}, {c.Headers.Get("Authorization") != "", "a header Authorization"},
	} {
		if x.is {
			given = append(given, x.name)
		}
	}
	if len(given) > 1 {
		return fmt.Errorf("the %s takes one credential: %s exclude each other: %w", c.Role, strings.Join(given, " and "), fault.ErrConfig)
	}
	for name, text := range map[string]string{"API key": c.APIKey, "bearer token": c.Token} {
		if !oneWord(text) {
			return fmt.Errorf("the %s of the %s holds white space or other characters that no header can hold: %w", name, c.Role, fault.ErrConfig)
		}
	}
	return nil
}

// anonymous is the identity of a client without a credential.
const anonymous = "user anonymous"

// identity returns a description of the credential for errors, without secrets.
func (c Config) identity() string {
	switch {
	case c.Username != "":
		return "user " + c.Username
	case c.APIKey != "":
		return "the API key"
	case c.TokenFile != "":
		return "the bearer token in " + c.TokenFile
	case c.Token != "":
		return "the bearer token"
	case c.Headers.Get("Authorization") != "":
		return "the header Authorization"
	}
	return anonymous
}

// Refused returns the remedy for a credential that the cluster rejects (status 401).
func (c Config) Refused() string {
	role := c.withDefaults().Role
	variable := "RFS_" + strings.ToUpper(role)
	switch {
	case c.APIKey != "":
		return fmt.Sprintf("the %s refuses the API key: check --%s-api-key-file or %s_API_KEY, and whether the key has expired", role, role, variable)
	case c.Token != "" || c.TokenFile != "":
		return fmt.Sprintf("the %s refuses the bearer token: check --%s-token-file or %s_TOKEN, and whether the token has expired", role, role, variable)
	case c.Headers.Get("Authorization") != "":
		return fmt.Sprintf("the %s refuses the header Authorization: check --%s-header", role, role)
	}
	return fmt.Sprintf("the %s refuses the user: check --%s-username and the password (--%s-password-file or %s_PASSWORD)", role, role, role, variable)
}

// encodedKey returns an API key in the form of the header: the base64 of "id:key".
func encodedKey(text string) string {
	if strings.Contains(text, ":") {
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	return text
}

// oneWord reports whether a text consists of visible ASCII characters only.
func oneWord(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// RoundTrip sends a copy of the request with the credential and the headers.
func (a *authorizing) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	for name, values := range a.headers {
		sent.Header[name] = values
	}
	if a.token != nil {
		sent.Header.Set("Authorization", "Bearer "+a.token.current())
	}
	return a.next.RoundTrip(sent)
}

// tokenFile is a file with a bearer token, which other programs replace before it expires.
type tokenFile struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	token  string
	looked time.Time
	seen   fs.FileInfo
}

// current returns the token. It checks the file at most once a second; while the file is unreadable, it returns the last token.
// It returns "" without a file.
func (t *tokenFile) current() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.looked) >= tokenLookEvery {
		t.looked = now
		_ = t.load() // if the last token has expired, the cluster rejects it
	}
	return t.token
}

// replaced reads the file and reports whether it holds another token. It returns false without a file.
func (t *tokenFile) replaced(token string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = t.now()
	_ = t.load() // the former token stays
	return t.token != token
}

// read reads the token for the first time.
func (t *tokenFile) read() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = t.now()
	return t.load()
}

// load reads the file if it has changed.
func (t *tokenFile) load() error {
	f, err := os.Open(t.path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	is, err := f.Stat()
	if err != nil {
		return err
	}
	if t.seen != nil && os.SameFile(is, t.seen) && is.ModTime().Equal(t.seen.ModTime()) && is.Size() == t.seen.Size() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, mostCredential+1))
	if err != nil {
		return err
	}
	text := string(bytes.TrimSpace(b))
	if text == "" || len(b) > mostCredential || !oneWord(text) {
		return fmt.Errorf("%s holds no token of one line", t.path)
	}
	t.token, t.seen = text, is
	return nil
}

// ownHeaders are headers that rfsd or the transport sets.
var ownHeaders = []string{"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Accept-Encoding", "Connection", "Proxy-Connection", "Upgrade", "Te", "Trailer"}

// AddHeader adds a header in the form "NAME: VALUE". Errors do not contain the value.
func AddHeader(to http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !ok || name == "" || strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) >= 0:
		return fmt.Errorf("a header is NAME: VALUE")
	case strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) >= 0:
		return fmt.Errorf("the value of header %s holds control characters", name)
	}
	name = http.CanonicalHeaderKey(name)
	for _, own := range ownHeaders {
		if name == own {
			return fmt.Errorf("header %s is set by rfsd", name)
		}
	}
	to.Add(name, value)
	return nil
}

// ProxyOf returns the function that returns the proxy of a request: the given URL, none ("none"), or the proxy of the environment ("").
// Errors are fault.ErrConfig.
func ProxyOf(text string) (func(*http.Request) (*url.URL, error), error) {
	switch text {
	case "":
		return http.ProxyFromEnvironment, nil
	case "none":
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, fmt.Errorf("the address of a proxy is http://, https:// or socks5://HOST:PORT, or none: %w", fault.ErrConfig)
	}
	return http.ProxyURL(u), nil
}
