package repo_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/repotest"
)

// files serves the files below a directory, and no listings of folders.
func files(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := filepath.Join(dir, filepath.FromSlash(req.URL.Path))
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			http.NotFound(w, req)
			return
		}
		f, err := os.Open(path)
		if err != nil {
			http.NotFound(w, req)
			return
		}
		defer f.Close()
		http.ServeContent(w, req, "", info.ModTime(), f)
	})
}

// listed is a repository with the listings of another, for those that have none.
type listed struct {
	repo.Repository
	by repo.Repository
}

func (l listed) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return l.by.List(ctx, prefix)
}

func TestWeb_KeepsTheContract(t *testing.T) {
	for _, prefix := range []string{"", "some/pre fix/"} {
		repotest.Run(t, func(t *testing.T, blobs map[string][]byte) repotest.Repository {
			dir := t.TempDir()
			store(t, filepath.Join(dir, prefix), blobs)
			server := httptest.NewServer(files(dir))
			t.Cleanup(server.Close)
			r, err := repo.Open(t.Context(), server.URL+"/"+prefix, repo.Options{})
			if err != nil {
				t.Fatal(err)
			}
			by, err := repo.NewDir(filepath.Join(dir, prefix))
			if err != nil {
				t.Fatal(err)
			}
			return listed{r, repo.NewRetrying(by, retry.Policy{})}
		})
	}
}

// TestWeb_ARealRepositoryIsReadWithoutListings: index.latest names the catalog.
func TestWeb_ARealRepositoryIsReadWithoutListings(t *testing.T) {
	server := httptest.NewServer(files(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")))
	t.Cleanup(server.Close)
	r, err := repo.Open(t.Context(), server.URL, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.OpenCatalog(t.Context(), r)
	if err != nil || len(c.Snapshots) == 0 {
		t.Fatalf("%+v %v", c, err)
	}
	for _, err := range r.List(t.Context(), "") {
		if !errors.Is(err, fault.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
}

// TestWeb_WhyThereIsNoCatalogIsSaid: not that a web server lists no files.
func TestWeb_WhyThereIsNoCatalogIsSaid(t *testing.T) {
	for _, c := range []struct {
		status int
		want   error
		says   string
	}{
		{404, fs.ErrNotExist, "index.latest is missing"},
		{403, fault.ErrConfig, "to everyone"},
		{503, fault.ErrUnavailable, "503"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
		r, err := repo.NewWeb(server.URL+"/p", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.OpenCatalog(t.Context(), r); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: %v", c.status, err)
		}
		server.Close()
	}
}

func TestWeb_AddressesWithCredentialsAndWritesAreRefused(t *testing.T) {
	for _, address := range []string{"http://", "https://me:canary@host/x", "https://host/x?token=canary", "https://host/x#a"} {
		if _, err := repo.Open(t.Context(), address, repo.Options{}); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := repo.OpenBucket(t.Context(), "https://host/x", repo.Options{}, retry.Policy{}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "only read") {
		t.Errorf("%v", err)
	}
}
