package target

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// canary is in no error, warning or name.
const canary = "c4nary"

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClient_SendsItsCredential with each request, also to the nodes of a cluster with several addresses.
func TestClient_SendsItsCredential(t *testing.T) {
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), " "+canary+"\n")
	for _, c := range []struct {
		name string
		conf Config
		want http.Header
		who  string
	}{
		{"none", Config{}, http.Header{"Authorization": nil}, "for user anonymous"},
		{"a user", Config{Username: "ann", Password: canary}, http.Header{"Authorization": {"Basic YW5uOmM0bmFyeQ=="}}, "for user ann"},
		{"a key of two parts", Config{APIKey: "id:" + canary}, http.Header{"Authorization": {"ApiKey aWQ6YzRuYXJ5"}}, "the API key"},
		{"an encoded key", Config{APIKey: canary}, http.Header{"Authorization": {"ApiKey " + canary}}, "the API key"},
		{"a token", Config{Token: canary}, http.Header{"Authorization": {"Bearer " + canary}}, "the bearer token"},
		{"a token in a file", Config{TokenFile: token}, http.Header{"Authorization": {"Bearer " + canary}}, "for the bearer token in " + token},
		{"headers", Config{Headers: http.Header{"x-tenant": {"a", "b"}, "Authorization": {canary}}}, http.Header{"X-Tenant": {"a", "b"}, "Authorization": {canary}}, "the header Authorization"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests, refuse atomic.Int64
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				for name, values := range c.want {
					if got := r.Header.Values(name); strings.Join(got, ",") != strings.Join(values, ",") {
						t.Errorf("%s %s: %s is %q", r.Method, r.URL.Path, name, got)
					}
				}
				if refuse.Load() > 0 {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = io.WriteString(w, `{"version":{"number":"2.19.4","distribution":"opensearch"},"cluster_uuid":"u"}`)
			})
			a, b := httptest.NewServer(h), httptest.NewServer(h)
			defer a.Close()
			defer b.Close()
			for _, url := range []string{a.URL, a.URL + "," + b.URL} {
				requests.Store(0)
				refuse.Store(0)
				c.conf.URL = url
				client := opened(t, c.conf)
				if _, err := client.Info(t.Context()); err != nil || requests.Load() == 0 {
					t.Fatalf("%d requests, %v", requests.Load(), err)
				}
				refuse.Store(1)
				_, err := client.Info(t.Context())
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.who) {
					t.Errorf("%v", err)
				}
				if text := err.Error() + client.Refused() + client.Name() + strings.Join(c.conf.Risks(), ""); strings.Contains(text, canary) {
					t.Error("a secret is shown")
				}
			}
		})
	}
}

// TestConfig_RefusesCredentials that no request can have.
func TestConfig_RefusesCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		conf Config
		text string
	}{
		"a user and a key":       {Config{Username: "ann", APIKey: canary}, "a user with password and an API key exclude each other"},
		"a key and a token":      {Config{APIKey: canary, Token: canary}, "an API key and a bearer token"},
		"a user and a header":    {Config{Username: "ann", Headers: http.Header{"Authorization": {canary}}}, "and a header Authorization"},
		"signatures and a token": {Config{SigV4: &SigV4{Region: "eu-west-1"}, TokenFile: "x"}, "a bearer token and AWS signatures"},
		"a key of two lines":     {Config{APIKey: canary + "\nx"}, "API key of the target holds white space"},
		"a token with a blank":   {Config{Token: canary + " x"}, "bearer token of the target holds white space"},
		"no file":                {Config{TokenFile: filepath.Join(dir, "none")}, "no such file"},
		"an empty file":          {Config{TokenFile: writeFile(t, filepath.Join(dir, "empty"), "\n")}, "holds no token"},
		"a file of two lines":    {Config{TokenFile: writeFile(t, filepath.Join(dir, "two"), canary+"\n"+canary)}, "holds no token"},
		"a file without end":     {Config{TokenFile: writeFile(t, filepath.Join(dir, "long"), strings.Repeat("a", mostCredential+1))}, "holds no token"},
		"no proxy":               {Config{Proxy: "ftp://" + canary + ":x@h"}, "--target-proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "a")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
			c.conf.URL = "http://127.0.0.1:1"
			_, err := New(t.Context(), c.conf)
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), canary) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTokenFile_IsReadAgain when it has been replaced or rewritten; while it cannot be read, the last token stays.
func TestTokenFile_IsReadAgain(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "token"), time.Now()
	f := &tokenFile{path: writeFile(t, path, "one"), now: func() time.Time { return now }}
	if err := f.read(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing changed", func() {}, "one"},
		{"rewritten", func() { writeFile(t, path, "second") }, "second"},
		{"replaced", func() {
			if err := os.Rename(writeFile(t, path+"-new", "third3"), path); err != nil {
				t.Fatal(err)
			}
		}, "third3"},
		{"empty for a moment", func() { writeFile(t, path, "") }, "third3"},
		{"gone", func() { _ = os.Remove(path) }, "third3"},
		{"there again", func() { writeFile(t, path, "fourth\n") }, "fourth"},
	} {
		step.do()
		if got := f.current(); step.name != "nothing changed" && got == step.want && step.want != "third3" {
			t.Errorf("%s: the file was looked at twice within a second", step.name)
		}
		now = now.Add(tokenLookEvery)
		if got := f.current(); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

// TestClient_TriesAgainWithAReplacedToken: a refused token that its file does not hold any more is no fault of the configuration.
func TestClient_TriesAgainWithAReplacedToken(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "token"), "former")
	var accepted atomic.Pointer[string]
	first := "former"
	accepted.Store(&first)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+*accepted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"version":{"number":"2.19.4","distribution":"opensearch"},"cluster_uuid":"u"}`)
	}))
	defer server.Close()
	client := opened(t, Config{URL: server.URL, TokenFile: path})
	ask := func(when string, want error) {
		t.Helper()
		if _, err := client.Info(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v", when, err)
		}
	}
	ask("accepted", nil)
	second := "second"
	accepted.Store(&second)
	ask("expired", fault.ErrConfig)
	writeFile(t, path, second)
	ask("replaced, within the second", fault.ErrUnavailable)
	ask("tried again", nil)
	third := "third"
	accepted.Store(&third)
	ask("expired again", fault.ErrConfig)
}

// TestClient_GoesThroughItsProxy, and only there: the name of the cluster cannot be resolved.
func TestClient_GoesThroughItsProxy(t *testing.T) {
	var asked, authorized atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		url, auth := r.URL.String(), r.Header.Get("Proxy-Authorization")
		asked.Store(&url)
		authorized.Store(&auth)
		_, _ = io.WriteString(w, `{"version":{"number":"2.19.4","distribution":"opensearch"},"cluster_uuid":"u"}`)
	}))
	defer proxy.Close()
	client := opened(t, Config{URL: "http://cluster.invalid:9200", Proxy: strings.Replace(proxy.URL, "http://", "http://ann:"+canary+"@", 1)})
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *asked.Load() != "http://cluster.invalid:9200/" || !strings.HasPrefix(*authorized.Load(), "Basic ") {
		t.Errorf("the proxy was asked for %s", *asked.Load())
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	direct := opened(t, Config{URL: proxy.URL, Proxy: "none"})
	if _, err := direct.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAddHeader(t *testing.T) {
	for line, want := range map[string]string{
		"x-opaque-id:  a b ": "X-Opaque-Id=a b", "X-Empty:": "X-Empty=", "a: b: c": "A=b: c",
		"no colon": "", ": x": "", "a b: x": "", "a(: x": "", "ä: x": "", "a: x\r\nb: y": "", "Host: x": "", "content-length: 1": "", "Transfer-Encoding: chunked": "",
	} {
		h := http.Header{}
		err := AddHeader(h, line)
		got := ""
		for name, values := range h {
			got = name + "=" + strings.Join(values, ",")
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}
