package repo

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// newTransport returns the connections of a store that answers in HTTP.
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

// role returns what the servers of a place are, as traces name them. flags is the prefix of its options.
func role(flags string) string {
	if flags == "" {
		return "repository"
	}
	return "store"
}

// http1 returns HTTP/1 alone: reads share no connection, because a slow one would hold up the others.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// notFollowed keeps a client from following redirects: what it sends is for the address that was configured.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bounded limits what a client library reads whole of an answer: errors and listings. Blobs are streamed.
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

// errTooLong means that an answer is longer than any that the protocol has.
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
