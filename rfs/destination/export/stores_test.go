package export_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

// realStores start a server of each kind, and return the address of its bucket.
var realStores = map[string]func(t *testing.T) (uri string, o repo.Options){
	"S3": func(t *testing.T) (string, repo.Options) {
		server := startS3(t)
		return "s3://bucket/", s3Options(server)
	},
	"S3 where three requests of ten fail": func(t *testing.T) (string, repo.Options) {
		server, counts := startS3(t).Faulty(t, 30, "a seed")
		t.Cleanup(func() {
			if f := counts(); f.Errors == 0 || f.Drops == 0 || f.Cuts == 0 {
				t.Errorf("the server was not as bad as it should be: %+v", f)
			}
		})
		return "s3://bucket/", s3Options(server)
	},
	"GCS": func(t *testing.T) (string, repo.Options) {
		s := objectserver.StartGCS(t)
		return "gs://bucket/", repo.Options{GCS: repo.GCSOptions{Endpoint: s.Endpoint}}
	},
	"Azure": func(t *testing.T) (string, repo.Options) {
		a := objectserver.StartAzurite(t)
		return "azblob://bucket/", repo.Options{Azure: repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: a.KeyFile}}
	},
}

func startS3(t *testing.T) s3server.Server {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := s3server.Start(t, root)
	server.Setenv(t)
	return server
}

func s3Options(s s3server.Server) repo.Options {
	return repo.Options{S3: repo.S3Options{Region: s.Region, Endpoint: s.Endpoint, PathStyle: true}}
}

// TestRealStores_KeepTheContract runs the contract on real servers, and exports a document that is longer than an object.
func TestRealStores_KeepTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	policy := retry.Policy{Tries: 15, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	for name, start := range realStores {
		t.Run(name, func(t *testing.T) {
			uri, o := start(t)
			n := 0
			open := func(t *testing.T) export.Store {
				t.Helper()
				n++
				objects, err := repo.OpenObjects(t.Context(), fmt.Sprintf("%sexports/%d", uri, n), o)
				if err != nil {
					t.Fatal(err)
				}
				return objects.UpTo(export.MaxManifest)
			}
			export.KeepsTheContract(t, open, policy)
			t.Run("long documents", func(t *testing.T) {
				long := strings.Repeat("0123456789abcdef", 3<<20) // 48 MiB
				store := open(t)
				x, err := export.OpenBucket(t.Context(), store, export.None)
				if err != nil {
					t.Fatal(err)
				}
				f, err := x.Create(t.Context(), "i", 0, 0, func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				body := []byte("{\"index\":{\"_index\":\"i\",\"_id\":\"1\"}}\n{\"long\":\"" + long + "\"}\n")
				for range 2 {
					if _, err := f.Send(t.Context(), body, 1); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := x.Finish(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				get := func(name string) (b []byte) {
					err := policy.Do(t.Context(), func(ctx context.Context) (err error) {
						b, _, err = store.Get(ctx, name)
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				m, err := export.ParseManifest(get(export.ManifestName))
				if err != nil || !m.Complete || m.Documents != 2 || len(m.Files) != 2 {
					t.Fatalf("%+v, %v", m, err)
				}
				for _, e := range slices.Backward(m.Files) {
					if b := get(e.Name); !bytes.Equal(b, body) {
						t.Errorf("%s: %d bytes", e.Name, len(b))
					}
				}
			})
		})
	}
}
