package target

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// nodesOf is a transport that plays the nodes of a cluster.
type nodesOf struct {
	mu    sync.Mutex
	nodes map[string]*playedNode
}

// playedNode is one of them.
type playedNode struct {
	uuid  string
	down  bool
	took  time.Duration // for a request of documents
	bulks int
	other []string // paths of other requests
	users []string // values of Authorization, one of each
}

var errNode = errors.New("connection refused")

func (c *nodesOf) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	n := c.nodes[req.URL.Host]
	if n == nil || n.down {
		c.mu.Unlock()
		return nil, errNode
	}
	if user := req.Header.Get("Authorization"); !slices.Contains(n.users, user) {
		n.users = append(n.users, user)
	}
	body := fmt.Sprintf(`{"cluster_uuid":%q}`, n.uuid)
	took := time.Duration(0)
	if req.URL.Path == "/_bulk" {
		n.bulks++
		took, body = n.took, `{"errors":false,"items":[{"index":{"_index":"a","_id":"1","status":201}},{"index":{"_index":"a","_id":"2","status":200}}]}`
	} else {
		n.other = append(n.other, req.URL.Path)
	}
	c.mu.Unlock()
	time.Sleep(took)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// change changes a node.
func (c *nodesOf) change(host string, f func(n *playedNode)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.nodes[host])
}

// bulks returns how many requests of documents each node has got since the last call.
func (c *nodesOf) bulks() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]int{}
	for host, n := range c.nodes {
		all[host], n.bulks = n.bulks, 0
	}
	return all
}

// play returns a client of a cluster with nodes of these hosts.
func play(t *testing.T, hosts ...string) (*Client, *nodesOf) {
	t.Helper()
	c := &nodesOf{nodes: map[string]*playedNode{}}
	var urls []string
	for _, h := range hosts {
		c.nodes[h] = &playedNode{uuid: "u1", took: 100 * time.Millisecond}
		urls = append(urls, "http://"+h)
	}
	client := opened(t, Config{URL: strings.Join(urls, ","), Username: "ann", Password: "canary", Wrap: func(http.RoundTripper) http.RoundTripper { return c }})
	return client, c
}

// load sends documents over so many connections for a time, and returns how many requests failed.
func load(ctx context.Context, c *Client, connections int, d time.Duration) (failed int) {
	var mu sync.Mutex
	var senders sync.WaitGroup
	end := time.Now().Add(d)
	for range connections {
		senders.Go(func() {
			for time.Now().Before(end) {
				if _, err := c.Send(ctx, []byte(twoItems), 2); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	senders.Wait()
	return failed
}

// TestAllAddressesShareTheDocuments: evenly while the nodes are equally fast, by their speed otherwise. Everything else goes to
// the first.
func TestAllAddressesShareTheDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := play(t, "a:9200", "b:9200", "c:9200")
		if failed := load(t.Context(), client, 6, 10*time.Second); failed > 0 {
			t.Errorf("%d failed", failed)
		}
		for host, n := range c.bulks() {
			if n < 190 || n > 210 {
				t.Errorf("%s got %d requests of 600", host, n)
			}
		}
		c.change("c:9200", func(n *playedNode) { n.took = time.Second })
		load(t.Context(), client, 6, 10*time.Second)
		if got := c.bulks(); got["c:9200"] > 30 || got["a:9200"] < 180 || got["b:9200"] < 180 {
			t.Errorf("with a slow node: %v", got)
		}
		for range 10 {
			if _, _, err := client.Do(t.Context(), http.MethodGet, "/_cluster/health", nil, nil); err != nil {
				t.Error(err)
			}
		}
		if n := len(c.nodes["a:9200"].other); n != 11 || len(c.nodes["b:9200"].other) != 1 {
			t.Errorf("%d and %d other requests", n, len(c.nodes["b:9200"].other))
		}
	})
}

// TestADeadAddressIsLeftOutAndTriedAgain, also when it does not answer at the start, and when it is the first.
func TestADeadAddressIsLeftOutAndTriedAgain(t *testing.T) {
	for _, host := range []string{"a:9200", "b:9200"} {
		synctest.Test(t, func(t *testing.T) {
			client, c := play(t, "a:9200", "b:9200")
			c.change(host, func(n *playedNode) { n.down = true })
			if failed := load(t.Context(), client, 2, 10*time.Second); failed > 0 || c.bulks()[host] > 0 {
				t.Errorf("%s does not answer at the start: %d failed", host, failed)
			}
			c.change(host, func(n *playedNode) { n.down = false })
			load(t.Context(), client, 2, time.Minute)
			if n := c.bulks()[host]; n < 250 {
				t.Errorf("%s answers again: %d requests in a minute", host, n)
			}
			c.change(host, func(n *playedNode) { n.down = true })
			if failed := load(t.Context(), client, 2, time.Minute); failed > 2 {
				t.Errorf("%s has gone: %d requests failed", host, failed)
			}
			c.change("a:9200", func(n *playedNode) { n.down = true })
			c.change("b:9200", func(n *playedNode) { n.down = true })
			_, _ = client.Send(t.Context(), []byte(twoItems), 2) // finds out
			if _, err := client.Send(t.Context(), []byte(twoItems), 2); !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrConfig) ||
				!strings.Contains(err.Error(), "http://a:9200") || !strings.Contains(err.Error(), "http://b:9200") {
				t.Errorf("no node answers: %v", err)
			}
			c.change("b:9200", func(n *playedNode) { n.down = false })
			if _, err := client.Send(t.Context(), []byte(twoItems), 2); err != nil {
				t.Errorf("one answers again: %v", err)
			}
		})
	}
}

// TestAnAddressOfAnotherClusterGetsNoDocuments, neither at the start nor when a node has come back as another.
func TestAnAddressOfAnotherClusterGetsNoDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := play(t, "a:9200", "b:9200")
		c.change("b:9200", func(n *playedNode) { n.uuid = "u2" })
		_, err := client.Send(t.Context(), []byte(twoItems), 2)
		if _, again := client.Send(t.Context(), []byte(twoItems), 2); !errors.Is(err, fault.ErrConfig) || !errors.Is(again, fault.ErrConfig) ||
			errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("%v, then %v", err, again)
		}
		if got := c.bulks(); got["a:9200"]+got["b:9200"] > 0 {
			t.Errorf("documents were sent: %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		client, c := play(t, "a:9200", "b:9200")
		load(t.Context(), client, 2, time.Second)
		c.change("b:9200", func(n *playedNode) { n.down = true })
		load(t.Context(), client, 2, time.Second)
		c.bulks()
		c.change("b:9200", func(n *playedNode) { n.down, n.uuid = false, "u2" })
		if failed := load(t.Context(), client, 2, time.Minute); failed > 0 || c.bulks()["b:9200"] > 0 {
			t.Errorf("%d failed, or another cluster got documents", failed)
		}
		for _, wrong := range []string{"", noUUID} {
			c.change("b:9200", func(n *playedNode) { n.uuid = wrong })
			if load(t.Context(), client, 2, time.Minute); c.bulks()["b:9200"] > 0 {
				t.Errorf("a node with the UUID %q got documents", wrong)
			}
		}
	})
}

func TestAddressesOfOneCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		conf Config
		want string // "": good
	}{
		{"two", Config{URL: "http://a:9200,http://b:9200"}, ""},
		{"one user", Config{URL: "http://u:canary@a:9200,http://b:9200,http://u:canary@c:9200"}, ""},
		{"two users", Config{URL: "http://u:canary@a:9200,http://v:canary@b:9200"}, "another user"},
		{"a user for the second only", Config{URL: "http://a:9200,http://v:canary@b:9200"}, "another user"},
		{"two schemes", Config{URL: "https://a:9200,http://b:9200"}, "differ in host and port only"},
		{"two paths", Config{URL: "https://a:9200/x,https://a:9200/y"}, "differ in host and port only"},
		{"twice the same", Config{URL: "https://a:9200,https://a:9200/"}, "given twice"},
		{"no URL", Config{URL: "https://a:9200,b:9200"}, "http(s)://host:port"},
		{"too many", Config{URL: strings.Repeat("http://a:9200,", maxGiven) + "http://a:9200"}, "at most 32"},
		{"nodes over plain http", Config{URL: "http://a:9200", Discover: true, CACert: "x"}, "https://"},
		{"nodes with the authorities of the system", Config{URL: "https://a:9200", Discover: true}, "--target-cacert"},
		{"nodes without verification", Config{URL: "https://a:9200", Discover: true, Insecure: true}, "--target-insecure"},
		{"nodes behind a path", Config{URL: "https://a:9200/x", Discover: true, CACert: "x"}, "without a path"},
		{"nodes of a domain", Config{URL: "https://a:9200", Discover: true, CACert: "x", SigV4: &SigV4{}}, "AWS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(t.Context(), c.conf)
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.want)) || err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
			if err == nil && (strings.Contains(client.Name(), "canary") || client.Close() != nil) {
				t.Errorf("%s", client.Name())
			}
		})
	}
}

func TestPublishedHost(t *testing.T) {
	for text, want := range map[string]published{
		"10.0.0.7:9200": {"10.0.0.7:9200", "10.0.0.7:9200"}, "node-7/10.0.0.7:9200": {"node-7:9200", "10.0.0.7:9200"},
		"[::1]:9200": {"[::1]:9200", "[::1]:9200"}, "n/[fe80::1]:9201": {"n:9201", "[fe80::1]:9201"},
		"": {}, "10.0.0.7": {}, "evil.example:80": {}, "http://10.0.0.7:80": {}, "x@y/10.0.0.7:9200": {}, "10.0.0.7:http": {}, "10.0.0.7:0": {}, "n/m/10.0.0.7:9200": {}, "10.0.0.7:99999": {},
	} {
		if got, err := publishedHost(text); got != want || (err == nil) != (want != published{}) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// authority signs certificates of nodes.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	var der []byte
	a.key, der = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// serve starts a node on loopback with a certificate of the authority.
func (a *authority) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	key, der := a.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// heard counts requests of a node by their path.
type heard struct {
	mu    sync.Mutex
	paths map[string]int
	with  int // credentials
}

func (h *heard) handler(answers map[string]func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		if h.paths == nil {
			h.paths = map[string]int{}
		}
		h.paths[r.URL.Path]++
		if r.Header.Get("Authorization") != "" {
			h.with++
		}
		h.mu.Unlock()
		_, _ = io.WriteString(w, answers[r.URL.Path]())
	})
}

func (h *heard) seen() (map[string]int, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.paths), h.with
}

// TestNodesThatTheClusterNames: a node with a certificate of the authority gets documents. A cluster that names anything else
// (a host with another certificate, one that speaks plain HTTP, another cluster, no address) does not bring a request there. The
// node that was given is not used a second time because the cluster writes its address in another way. The tests look up no names.
func TestNodesThatTheClusterNames(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	says := func(text string) func() string { return func() string { return text } }
	const taken = `{"errors":false,"items":[{"index":{"_index":"a","_id":"1","status":201}},{"index":{"_index":"a","_id":"2","status":200}}]}`
	node := map[string]func() string{"/": says(`{"cluster_uuid":"u1"}`), "/_bulk": says(taken)}
	var first, second, foreign, elsewhere heard
	known := ours.serve(t, second.handler(node))
	another := ours.serve(t, foreign.handler(map[string]func() string{"/": says(`{"cluster_uuid":"u2"}`), "/_bulk": says(taken)}))
	stranger := others.serve(t, elsewhere.handler(node))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var itself string
	var wire bytes.Buffer // what reached the port without TLS
	var listening sync.WaitGroup
	listening.Go(func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // a client that waits for its turn of the processor
			part := make([]byte, 4<<10)
			n, _ := conn.Read(part)
			wire.Write(part[:n])
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n"+`{"cluster_uuid":"u1"}`)
			_ = conn.Close()
		}
	})
	node["/_nodes/http"] = func() string {
		var nodes []string
		for i, address := range []string{itself, known, another, stranger, plain.Addr().String(), "http://" + stranger, "evil@h/" + stranger, ""} {
			nodes = append(nodes, fmt.Sprintf(`"n%d":{"roles":["data","ingest"],"http":{"publish_address":%q}}`, i, address))
		}
		return `{"nodes":{` + strings.Join(nodes, ",") + `,"m":{"roles":["cluster_manager"],"http":{"publish_address":"127.0.0.1:1"}}}}`
	}
	var log bytes.Buffer
	itself = ours.serve(t, first.handler(node))
	client := opened(t, Config{
		URL: "https://" + strings.Replace(itself, "127.0.0.1", "[::ffff:127.0.0.1]", 1), Username: "ann", Password: "canary", CACert: ours.file, Discover: true,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if _, err := client.Send(t.Context(), []byte(twoItems), 2); err != nil {
			t.Fatal(err)
		}
		client.balancer.mu.Lock()
		settled := !slices.ContainsFunc(client.balancer.all, func(a *address) bool { return !a.live && a.absence == 0 })
		settled = settled && len(client.balancer.all) > 1
		client.balancer.mu.Unlock()
		if settled {
			break
		}
	}
	for range 20 {
		if _, err := client.Send(t.Context(), []byte(twoItems), 2); err != nil {
			t.Fatal(err)
		}
	}
	client.balancer.close()
	if slices.ContainsFunc(client.balancer.all, func(a *address) bool { return a.host == itself }) {
		t.Error("the node that was given is used twice")
	}
	if err := plain.Close(); err != nil {
		t.Error(err)
	}
	listening.Wait()
	if got, _ := second.seen(); got["/_bulk"] < 8 {
		t.Errorf("the node that was named got %v", got)
	}
	if got, with := elsewhere.seen(); len(got) > 0 || with > 0 {
		t.Errorf("a host with another certificate got %v", got)
	}
	if got, _ := foreign.seen(); got["/_bulk"] > 0 {
		t.Errorf("another cluster got %v", got)
	}
	if s := wire.String(); len(s) == 0 || s[0] != 0x16 || strings.Contains(s, "GET ") || strings.Contains(s, "Basic ") { // a TLS handshake
		t.Errorf("a port without TLS got %q", s)
	}
	for _, want := range []string{"is not an address of the form", "another cluster", "unknown authority", stranger, plain.Addr().String()} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "canary") || strings.Contains(log.String(), "127.0.0.1:1 ") {
		t.Errorf("%s", log.String())
	}
}
