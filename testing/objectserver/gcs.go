package objectserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
)

// Module and version of the server that InstallGCS builds.
const (
	gcsModule  = "github.com/fsouza/fake-gcs-server"
	gcsVersion = "v1.56.1"
	gcsProgram = "fake-gcs-server"
)

// InstallGCS returns the path of fake-gcs-server, and builds it in the user's cache if it is missing.
func InstallGCS(ctx context.Context) (string, error) {
	return GoInstall(ctx, gcsProgram+"-"+gcsVersion, gcsProgram, gcsModule+"@"+gcsVersion)
}

// GCS is a running server of Google Cloud Storage. It does not check credentials.
type GCS struct{ Endpoint string }

// StartGCS starts an empty server with a bucket "bucket". It skips the test if the server is not installed.
func StartGCS(t testing.TB) GCS {
	t.Helper()
	bin, err := Binary(gcsProgram+"-"+gcsVersion, gcsProgram)
	if err != nil {
		t.Skipf("no server of Google Cloud Storage: %v", err)
	}
	address := Run(t, func(host, port string) *exec.Cmd {
		return exec.Command(bin, "-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-log-level", "error")
	})
	s := GCS{Endpoint: "http://" + address}
	s.post(t, "/storage/v1/b?project=test", "application/json", []byte(`{"name":"bucket"}`))
	return s
}

// Put writes an object to the bucket.
func (s GCS) Put(t testing.TB, name string, body []byte) {
	t.Helper()
	s.post(t, "/upload/storage/v1/b/bucket/o?uploadType=media&name="+url.QueryEscape(name), "application/octet-stream", body)
}

func (s GCS) post(t testing.TB, path, kind string, body []byte) {
	t.Helper()
	res, err := http.Post(s.Endpoint+path, kind, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatal(fmt.Sprint("POST ", path, ": ", res.Status, " ", string(b)))
	}
}
