package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// token returns a bearer token of the administrator of a secured node.
func token(t *testing.T, lasts time.Duration) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "token-user", "roles": []string{"admin"}, "exp": time.Now().Add(lasts).Unix()})
	must(t, err)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sign := hmac.New(sha256.New, cluster.TokenKey)
	sign.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sign.Sum(nil))
}

// tunnels is a proxy that connects clients to any address of this machine, and counts the connections.
func tunnels(t *testing.T, count *atomic.Int64) *httptest.Server {
	t.Helper()
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !strings.HasPrefix(r.Host, "127.0.0.1:") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		count.Add(1)
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close() //nolint:errcheck // of a test
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer from.Close() //nolint:errcheck // of a test
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from) }()
		_, _ = io.Copy(from, to)
	}))
}

// TestCredentials_ABearerTokenIsReadAgain checks that a migration that lasts longer than its first token continues with the tokens that
// replace it. It reaches the target through a proxy.
func TestCredentials_ABearerTokenIsReadAgain(t *testing.T) {
	n := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	wipe(t, n)
	var connections atomic.Int64
	proxy := tunnels(t, &connections)
	defer proxy.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	renew := func(lasts time.Duration) {
		must(t, os.WriteFile(path+"-new", []byte(token(t, lasts)+"\n"), 0o600))
		must(t, os.Rename(path+"-new", path))
	}
	at := []string{"--repo-uri", fixture(t, "7.10.2-demo"), "--snapshot-name", "snap1", "--session-name", "token", "--target-host", n.URL, "--target-cacert", n.CACert,
		"--target-token-file", path, "--target-proxy", proxy.URL, "--target-header", "X-Opaque-Id: rfsd"}
	renew(-time.Hour)
	refusedWith(t, RunIn(t, dir, nil, "rfsd", append([]string{"migrate"}, at...)...), "the target refuses the bearer token", "--target-token-file")

	const lasts = 3 * time.Second
	renew(lasts)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				renew(lasts)
			}
		}
	}()
	begin := time.Now()
	r := RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--max-rate", "8KiB"}, at...)...)
	close(stop)
	<-stopped
	if r.Code != 0 || connections.Load() == 0 {
		t.Errorf("exit %d after %d connections: %s %s", r.Code, connections.Load(), r.Stdout, r.Stderr)
	}
	if took := time.Since(begin); took < lasts {
		t.Errorf("the migration took %s, less than the token lasts", took)
	}
	if text := r.Stdout + r.Stderr; strings.Contains(text, "eyJ") {
		t.Errorf("the token is shown: %s", text)
	}
	refusedWith(t, RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--target-token", "x"}, at...)...), "visible to other users")
	refusedWith(t, RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--target-header", "Authorization: x"}, at...)...), "@FILE")
	time.Sleep(lasts)
	renew(time.Hour)
	if r := RunIn(t, dir, nil, "rfsctl", "status", "--session-name", "token", "--target-host", n.URL, "--target-cacert", n.CACert, "--target-token-file", path); r.Code != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
}
