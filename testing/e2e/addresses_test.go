package e2e

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// entrance is one address of a node.
type entrance struct {
	*httptest.Server
	bulks atomic.Int64 // requests of documents that it has passed on
	down  atomic.Bool  // it ends connections instead of answering
	named string       // what it answers to /_nodes/http; "": the node's answer
}

// newEntrance starts one; after is called with the number of each request of documents.
func newEntrance(t *testing.T, n *cluster.Node, secure bool, after func(bulks int64)) *entrance {
	t.Helper()
	to, err := url.Parse(n.URL)
	must(t, err)
	next, e := httputil.NewSingleHostReverseProxy(to), &entrance{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case e.down.Load():
			panic(http.ErrAbortHandler)
		case e.named != "" && r.URL.Path == "/_nodes/http":
			_, _ = io.WriteString(w, e.named)
			return
		case strings.HasSuffix(r.URL.Path, "/_bulk") && !r.URL.Query().Has("require_alias"):
			time.Sleep(100 * time.Millisecond) // an address that did not answer is asked again after 1, 2, 4 s
			after(e.bulks.Add(1))
		}
		next.ServeHTTP(w, r)
	}))
	if secure {
		e.StartTLS()
	} else {
		e.Start()
	}
	t.Cleanup(e.Close)
	return e
}

// TestAllAddressesOfTheTargetAreUsed: two share the documents. One that does not answer at the start is used when it does; then
// the other, through which all else went, goes away for good.
func TestAllAddressesOfTheTargetAreUsed(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	var a, b *entrance
	a = newEntrance(t, n, false, func(bulks int64) {
		if bulks == 1 {
			b.down.Store(false)
		}
	})
	b = newEntrance(t, n, false, func(bulks int64) {
		if bulks == 10 {
			a.down.Store(true)
		}
	})
	b.down.Store(true)
	res := Run(t, "rfsd", targetArgs(a.URL, demoRepo(), "--target-host", b.URL, "--documents-per-bulk-request", "1", "--max-connections", "2", "--slots", "1")...)
	if res.Code != 0 || a.bulks.Load() < 10 || b.bulks.Load() < 20 {
		t.Errorf("exit %d, %d and %d requests: %s", res.Code, a.bulks.Load(), b.bulks.Load(), res.Stderr)
	}
	if !strings.Contains(res.Stderr, "left out until it answers") || !strings.Contains(res.Stderr, "answers again") {
		t.Error(res.Stderr)
	}
	compareLanded(t, n, demoRepo())
}

// TestOnlyNodesOfTheTargetGetDocuments: a target that names addresses of others does not bring a request there.
func TestOnlyNodesOfTheTargetGetDocuments(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var got strings.Builder
	var listening sync.WaitGroup
	listening.Go(func() {
		for {
			c, err := elsewhere.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // a client that waits for its turn of the processor
			part := make([]byte, 1<<10)
			k, _ := c.Read(part)
			got.Write(part[:k])
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			_ = c.Close()
		}
	})
	nothing := func(int64) {}
	given, named := newEntrance(t, n, true, nothing), newEntrance(t, n, true, nothing)
	var nodes []string
	for i, address := range []string{named.Listener.Addr().String(), elsewhere.Addr().String(), "http://" + elsewhere.Addr().String()} {
		nodes = append(nodes, fmt.Sprintf(`"n%d":{"roles":["data"],"http":{"publish_address":%q}}`, i, address))
	}
	given.named = `{"nodes":{` + strings.Join(nodes, ",") + `}}`
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: given.Certificate().Raw}), 0o600))
	args := targetArgs(given.URL, demoRepo(), "--target-username", "ann", "--target-discover", "--documents-per-bulk-request", "1", "--max-connections", "2")
	if res := Run(t, "rfsd", args...); res.Code != 1 || !strings.Contains(res.Stderr, "needs --target-cacert") {
		t.Errorf("without an authority: exit %d: %s", res.Code, res.Stderr)
	}
	res := RunIn(t, t.TempDir(), []string{"RFS_TARGET_PASSWORD=canary"}, "rfsd", append(args, "--target-cacert", authority)...)
	must(t, elsewhere.Close())
	listening.Wait()
	if res.Code != 0 || named.bulks.Load() < 10 {
		t.Errorf("exit %d, %d requests at the node that was named: %s", res.Code, named.bulks.Load(), res.Stderr)
	}
	if s := got.String(); s == "" || strings.Contains(s, "HTTP/1.1") || strings.Contains(s, "Basic") {
		t.Errorf("the address elsewhere got %q, not only a TLS handshake", s)
	}
	if !strings.Contains(res.Stderr, "an address that the cluster names is not used") || !strings.Contains(res.Stderr, elsewhere.Addr().String()) {
		t.Error(res.Stderr)
	}
	compareLanded(t, n, demoRepo())
}
