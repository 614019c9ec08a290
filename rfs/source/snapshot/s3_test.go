package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

func TestARepositoryInABucketIsReadLikeOneInADirectory(t *testing.T) {
	dir := t.TempDir()
	repositories := realRepositories(t)
	for name, m := range repositories {
		for blob, b := range m {
			path := filepath.Join(dir, "bucket", name, filepath.FromSlash(blob))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := s3server.Start(t, dir)
	server.Setenv(t)
	for name, m := range repositories {
		r, err := repo.Open(t.Context(), "s3://bucket/"+name, repo.Options{S3: repo.S3Options{Endpoint: server.Endpoint, Region: server.Region, PathStyle: true}})
		if err != nil {
			t.Fatal(err)
		}
		counted := repo.NewCounting(r)
		var log []repo.Request
		counted.Log(&log)
		if got, want := listing(t, counted), listing(t, m); got != want {
			t.Errorf("%s: the bucket lists\n%s\nthe directory\n%s", name, got, want)
		}
		for _, request := range log {
			if request.Verb == "stat" {
				t.Errorf("%s: a request of its own for the length of %s", name, request.Name)
			}
		}
	}
}
