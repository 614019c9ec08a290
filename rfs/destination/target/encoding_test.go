package target

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// link is a transport with a bandwidth for each request. The node behind it takes documents at a rate of its own.
type link struct {
	wire, node atomic.Int64 // bytes per second, as they are sent and as they were
	length     int          // of a body before compression
	packed     atomic.Int64 // requests that were compressed
	all        atomic.Int64
}

func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	sent, err := io.Copy(io.Discard, req.Body)
	if err != nil {
		return nil, err
	}
	l.all.Add(1)
	if req.Header.Get("Content-Encoding") == "gzip" {
		l.packed.Add(1)
	}
	seconds := float64(sent)/float64(l.wire.Load()) + float64(l.length)/float64(l.node.Load())
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	const taken = `{"errors":false,"items":[{"index":{"_index":"a","_id":"1","status":201}}]}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(taken)), Request: req}, nil
}

// share sends bodies over four connections and returns which part of them was compressed.
func (l *link) share(t *testing.T, c *Client, body []byte, bodies int) float64 {
	t.Helper()
	packed, all := l.packed.Load(), l.all.Load()
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range bodies / 4 {
				if _, err := c.Send(t.Context(), body, 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	return float64(l.packed.Load()-packed) / float64(l.all.Load()-all)
}

// TestBodiesAreCompressedWhereTheNetworkIsTheLimit, and again when that changes.
func TestBodiesAreCompressedWhereTheNetworkIsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := fmt.Appendf(nil, "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"x\":%q}\n", strings.Repeat("x", measuredBytes))
		l := &link{length: len(body)}
		c := opened(t, Config{URL: "http://a:9200", CompressRequests: true, Wrap: func(http.RoundTripper) http.RoundTripper { return l }})
		l.wire.Store(1 << 20)
		l.node.Store(50 << 20)
		if first := l.share(t, c, body, trialBodies); first != 1 {
			t.Errorf("%.2f of the first bodies were compressed", first)
		}
		if slow := l.share(t, c, body, 400); slow < 0.9 {
			t.Errorf("%.2f were compressed on a slow network", slow)
		}
		l.wire.Store(1 << 30)
		l.share(t, c, body, 2*lastPeriod)
		if fast := l.share(t, c, body, 400); fast > 0.1 {
			t.Errorf("%.2f were compressed on a fast network", fast)
		}
		l.wire.Store(1 << 20)
		l.share(t, c, body, 2*lastPeriod)
		if slow := l.share(t, c, body, 400); slow < 0.9 {
			t.Errorf("%.2f were compressed when it was slow again", slow)
		}
	})
}
