package repo

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// newTransport returns the transport for a store that speaks HTTP.
func newTransport(stall time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: stall,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   maxIdleConns,
		DisableCompression:    true, // bytes are read as they are stored
		Protocols:             http1(),
	}
}

// role returns the role of a store's servers, as traces name it. flags is the prefix of its options.
func role(flags string) string {
	if flags == "" {
		return "repository"
	}
	return "store"
}

// http1 returns HTTP/1 only: reads do not share a connection, because a slow one would delay the others.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// notFollowed keeps a client from following redirects: its requests are only for the configured address.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bounded limits the responses that a client library reads whole: errors and listings. Blobs are streamed.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends the request.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode/100 != 2:
		res.Body = &limited{ReadCloser: res.Body, left: maxRefusal}
	case req.URL.Query().Get("comp") == "list":
		res.Body = &limited{ReadCloser: res.Body, left: maxListing}
	}
	return res, nil
}

// errTooLong means that a response is longer than the protocol allows.
var errTooLong = errors.New("the answer is too long")

// limited is a body that fails after left bytes.
type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
