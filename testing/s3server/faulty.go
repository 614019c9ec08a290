package s3server

import (
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// Faults counts the faults of a faulty server.
type Faults struct {
	Requests int
	Errors   int // responses 500 or 503
	Drops    int // connections closed without a response
	Cuts     int // responses cut off within the body
}

// Sum returns the number of failed requests.
func (f Faults) Sum() int { return f.Errors + f.Drops + f.Cuts }

// Faulty starts a proxy of a server that lets every request fail with a probability of percent, in the ways of real stores and networks.
// The fate of a request depends on seed, method, address, range and the number of equal requests before it, so that a run can be reproduced
// regardless of the order of concurrent requests. The returned server has the credentials of s; counts returns the faults so far.
func (s Server) Faulty(t testing.TB, percent int, seed string) (faulty Server, counts func() Faults) {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultyProxy{percent: uint64(percent), seed: seed, asked: map[string]int{}}
	p.proxy = &httputil.ReverseProxy{
		// Keep the host of the request, because the client signed it.
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: p.modify,
		ErrorLog:       log.New(io.Discard, "", 0), // it would report every cut
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	s.Endpoint = front.URL
	return s, p.counts
}

type faultyProxy struct {
	proxy   *httputil.ReverseProxy
	percent uint64
	seed    string

	mu    sync.Mutex
	asked map[string]int
	done  Faults
}

func (p *faultyProxy) counts() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// draw returns whether a request fails, and a number that selects the fault.
func (p *faultyProxy) draw(r *http.Request) (fails bool, how uint64) {
	key := r.Method + " " + r.URL.String() + " " + r.Header.Get("Range")
	p.mu.Lock()
	p.asked[key]++
	n := p.asked[key]
	p.done.Requests++
	p.mu.Unlock()
	h := fnv.New64a()
	io.WriteString(h, p.seed+" "+key+" "+strconv.Itoa(n)) //nolint:errcheck // a hash returns no errors
	v := h.Sum64()
	v ^= v >> 29 // mixes the last letters into the low digits
	v *= 0xBF58476D1CE4E5B9
	v ^= v >> 32
	return v%100 < p.percent, v / 100
}

func (p *faultyProxy) count(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

const cutHeader = "Rfsd-Test-Cut"

func (p *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fails, how := p.draw(r)
	if !fails {
		p.proxy.ServeHTTP(w, r)
		return
	}
	switch how % 4 {
	case 0:
		p.count(&p.done.Errors)
		xmlError(w, http.StatusServiceUnavailable, "SlowDown")
	case 1:
		p.count(&p.done.Errors)
		xmlError(w, http.StatusInternalServerError, "InternalError")
	case 2:
		p.count(&p.done.Drops)
		panic(http.ErrAbortHandler)
	default:
		p.count(&p.done.Cuts)
		r.Header.Set(cutHeader, strconv.FormatUint(how, 10))
		p.proxy.ServeHTTP(w, r)
	}
}

func xmlError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as told</Message></Error>", code)
}

// modify cuts the bodies of selected responses.
func (p *faultyProxy) modify(r *http.Response) error {
	how, err := strconv.ParseUint(r.Request.Header.Get(cutHeader), 10, 64)
	if err != nil {
		return nil //nolint:nilerr // without the header the response is not cut
	}
	left := int64(0)
	if r.ContentLength > 0 {
		left = int64(how % uint64(r.ContentLength))
	}
	r.Body = &cutBody{ReadCloser: r.Body, left: left}
	return nil
}

// cutBody fails after some bytes, whereupon the proxy breaks the connection.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}
