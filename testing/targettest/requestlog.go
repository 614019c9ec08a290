// Package targettest records the requests to a cluster in tests.
package targettest

import (
	"net/http"
	"slices"
	"sync"
)

// RequestLog is a transport that records every request.
type RequestLog struct {
	Next http.RoundTripper

	mu   sync.Mutex
	seen []string
}

// Wrap is a Config.Wrap that records what goes through next.
func (l *RequestLog) Wrap(next http.RoundTripper) http.RoundTripper {
	l.Next = next
	return l
}

// RoundTrip records method, path and query.
func (l *RequestLog) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.seen = append(l.seen, req.Method+" "+req.URL.RequestURI())
	l.mu.Unlock()
	return l.Next.RoundTrip(req)
}

// Requests returns the requests so far, in the form "POST /_bulk?pipeline=_none".
func (l *RequestLog) Requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}
