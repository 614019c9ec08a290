package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate stands before a node at an address that it keeps while it refuses connections.
type gate struct {
	address, node string
	mode          atomic.Pointer[string]
	delay         atomic.Int64 // of each request with documents, ns
	documents     atomic.Int64

	mu     sync.Mutex
	server *http.Server // nil while connections are refused
}

// What a gate does.
const (
	passes      = "passes"
	refuses     = "refuses connections"
	hangs       = "does not answer"
	unavailable = "answers 503"
	ahead       = "has a clock ten minutes ahead"
)

func newGate(t *testing.T, node string) *gate {
	t.Helper()
	g := &gate{address: freeAddress(t), node: node}
	g.set(t, passes)
	t.Cleanup(func() { g.set(t, refuses) })
	return g
}

func (g *gate) url() string { return "http://" + g.address }

func (g *gate) set(t *testing.T, mode string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.mode.Swap(&mode); was != nil && *was == hangs { // what waits for an answer does not get one later
		_ = g.server.Close()
		g.server = nil
	}
	switch {
	case mode == refuses && g.server != nil:
		_ = g.server.Close()
		g.server = nil
	case mode != refuses && g.server == nil:
		var l net.Listener
		until(t, "the gate opens again at "+g.address, func() (open bool) { // a process that just starts may hold the closed listener
			var err error
			l, err = net.Listen("tcp", g.address)
			return err == nil
		})
		g.server = &http.Server{Handler: g} //nolint:gosec // on loopback
		go g.server.Serve(l)                //nolint:errcheck // it ends with Close
	}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	isBulk := strings.HasSuffix(r.URL.Path, "/_bulk") && !r.URL.Query().Has("require_alias")
	if isBulk {
		select {
		case <-time.After(time.Duration(g.delay.Load())):
		case <-r.Context().Done():
			return
		}
	}
	mode := *g.mode.Load()
	switch mode {
	case hangs:
		<-r.Context().Done()
		return
	case unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"type":"cluster_manager_not_discovered_exception","reason":null},"status":503}`)
		return
	case ahead:
		now := time.Now().Add(10 * time.Minute)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		if at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); err == nil && now.Sub(at).Abs() > 5*time.Minute {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message></Error>`)
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	forward(answer, r, g.node)
	if isBulk && answer.Code == http.StatusOK {
		g.documents.Add(int64(bytes.Count(body, []byte("\n")) / 2))
	}
	for k, v := range answer.Header() {
		if k != "Date" || mode != ahead {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(answer.Code)
	_, _ = io.Copy(w, answer.Body)
}

// brokerGate is a gate before a broker in this process: connections end at once, or are not answered.
type brokerGate struct {
	net.Listener
	mu   sync.Mutex
	mode string
	open []net.Conn
}

func (g *brokerGate) set(_ *testing.T, mode string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode = mode
	for _, c := range g.open {
		c.Close()
	}
	g.open = nil
}

// Accept returns the next connection that passes.
func (g *brokerGate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		mode := g.mode
		g.open = append(g.open, c)
		g.mu.Unlock()
		switch mode {
		case passes:
			return c, nil
		case refuses:
			c.Close()
		}
	}
}
