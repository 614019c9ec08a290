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

// Behind starts a proxy of a server. around wraps the handler of each request, whose next handler is the server.
func (s Server) Behind(t testing.TB, around func(w http.ResponseWriter, r *http.Request, next http.Handler)) Server {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		// Keep the host of the request, because the client signed it.
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s.Endpoint = Fake(t, func(w http.ResponseWriter, r *http.Request) { around(w, r, proxy) }).Endpoint
	return s
}

// Fake starts a server that responds with answer and does not check credentials.
func Fake(t testing.TB, answer http.HandlerFunc) Server {
	t.Helper()
	front := httptest.NewServer(answer)
	t.Cleanup(front.Close)
	return Server{Endpoint: front.URL, AccessKey: "rfsd-test", SecretKey: "rfsd-test-key", Region: "us-east-1"}
}
