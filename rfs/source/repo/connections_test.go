package repo_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

func TestConnectionsAreUsedAgain(t *testing.T) {
	content := body()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	signer.SetEnvironment(t, "", "k", "s")
	r, err := repo.Open(t.Context(), "s3://bucket/p", repo.Options{S3: repo.S3Options{Region: "r", Endpoint: server.URL, PathStyle: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(50) {
		rc, err := r.Open(t.Context(), "b", i*100, 100+i)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100+i) // exactly what was asked for: no read meets the end
		if _, err := io.ReadFull(rc, b); err != nil || !bytes.Equal(b, content[i*100:][:100+i]) {
			t.Fatalf("range %d: other bytes or %v", i, err)
		}
		rc.Close()
	}
	if n := opened.Load(); n > 2 {
		t.Errorf("50 requests, in sequence, took %d connections", n)
	}
}
