package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

// store is a place of a repository, and how programs reach it.
type store struct {
	uri       string
	endpoint  string // "" for a directory
	env, args []string
	// signature returns a shared access signature of Azure.
	signature func(t testing.TB, lasts time.Duration) string
}

func inDirectory(_ *testing.T, repo string) store { return store{uri: repo} }

// inS3 copies a repository into a bucket of versitygw.
func inS3(t *testing.T, repo string) store {
	t.Helper()
	root := t.TempDir()
	must(t, os.CopyFS(filepath.Join(root, "bucket", "snapshots"), os.DirFS(repo)))
	s := s3server.Start(t, root)
	return store{
		uri: "s3://bucket/snapshots", endpoint: s.Endpoint,
		env: []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true"},
		args: []string{"--s3-region", s.Region, "--s3-path-style", "--s3-endpoint", s.Endpoint},
	}
}

// inGCS copies a repository into a bucket of fake-gcs-server.
func inGCS(t *testing.T, repo string) store {
	t.Helper()
	s := objectserver.StartGCS(t)
	upload(t, repo, "snapshots/", s.Put)
	return store{uri: "gs://bucket/snapshots", endpoint: s.Endpoint, args: []string{"--gcs-endpoint", s.Endpoint}}
}

// inAzure copies a repository into a container of Azurite.
func inAzure(t *testing.T, repo string) store {
	t.Helper()
	a := objectserver.StartAzurite(t)
	upload(t, repo, "snapshots/", a.Put)
	return store{uri: "azblob://bucket/snapshots", endpoint: a.Endpoint,
		args: []string{"--azure-account", a.Account, "--azure-key-file", a.KeyFile, "--azure-endpoint", a.Endpoint}, signature: a.Signature}
}

// inWeb serves a repository as the repositories of the type url are served.
func inWeb(t *testing.T, repo string) store {
	t.Helper()
	s := httptest.NewServer(http.StripPrefix("/snapshots", http.FileServer(http.Dir(repo))))
	t.Cleanup(s.Close)
	return store{uri: s.URL + "/snapshots", endpoint: s.URL}
}

// behind returns the store with a proxy before it; around wraps the handler of each request.
func (s store) behind(t *testing.T, around func(w http.ResponseWriter, r *http.Request, next http.Handler)) store {
	t.Helper()
	at, err := url.Parse(s.endpoint)
	must(t, err)
	front := s3server.Server{Endpoint: at.Scheme + "://" + at.Host}.Behind(t, around).Endpoint
	moved := s
	moved.endpoint = front + at.Path
	moved.uri = strings.Replace(s.uri, s.endpoint, moved.endpoint, 1) // of a web server
	moved.args = slices.Clone(s.args)
	if i := slices.Index(moved.args, s.endpoint); i >= 0 {
		moved.args[i] = moved.endpoint
	}
	return moved
}
