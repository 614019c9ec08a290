package s3server

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// Behind stands in front of a server. around is called for each request, whose next handler is the server.
func (s Server) Behind(t testing.TB, around func(w http.ResponseWriter, r *http.Request, next http.Handler)) Server {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		// The host stays that of the request, because it is part of what the client signed.
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s.Endpoint = Fake(t, func(w http.ResponseWriter, r *http.Request) { around(w, r, proxy) }).Endpoint
	return s
}

// Fake is a server that answers as a test says, and looks at no credentials.
func Fake(t testing.TB, answer http.HandlerFunc) Server {
	t.Helper()
	front := httptest.NewServer(answer)
	t.Cleanup(front.Close)
	return Server{Endpoint: front.URL, AccessKey: "rfsd-test", SecretKey: "rfsd-test-key", Region: "us-east-1"}
}
