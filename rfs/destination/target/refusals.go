package target

import (
	"net/http"
	"sync"
	"time"
)

// Refusals measures for how long clusters answered no request, because they were busy (429) or away. The zero value is ready. It is
// safe for concurrent use.
type Refusals struct {
	mu    sync.Mutex
	since time.Time // of the first of the refusals since the last answer; zero: there was none
	total time.Duration
}

// Wrap returns a transport that passes requests on and notes which of them were answered; see Config.Wrap.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper { return noting{next, r} }

// Total returns the time from a refusal to the next answer, summed up.
func (r *Refusals) Total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return r.total
	}
	return r.total + time.Since(r.since)
}

func (r *Refusals) note(refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case refused && r.since.IsZero():
		r.since = time.Now()
	case !refused && !r.since.IsZero():
		r.total += time.Since(r.since)
		r.since = time.Time{}
	}
}

type noting struct {
	next http.RoundTripper
	r    *Refusals
}

// RoundTrip passes a request on.
func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := n.next.RoundTrip(req)
	if req.Context().Err() == nil {
		n.r.note(err != nil || res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusBadGateway && res.StatusCode <= http.StatusGatewayTimeout)
	}
	return res, err
}
