package s3cms_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

func open(t testing.TB, b s3cms.Bucket, session string) *s3cms.Store {
	t.Helper()
	s, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: b, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve starts an S3 server with an empty bucket.
func serve(t testing.TB) s3server.Server {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s3server.Start(t, root)
}

// connect opens s3://bucket/state of a server.
func connect(t testing.TB, server s3server.Server) *repo.Objects {
	t.Helper()
	return objects(t, "s3://bucket/state", repo.Options{S3: repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true}})
}

func objects(t testing.TB, uri string, options repo.Options) *repo.Objects {
	t.Helper()
	o, err := repo.OpenObjects(t.Context(), uri, options)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestConformance(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		cmstest.Run(t, func(t *testing.T) cms.Store { return open(t, newMemory(), "") })
	})
	for name, connect := range map[string]func(t *testing.T) s3cms.Bucket{
		"a real server of S3": func(t *testing.T) s3cms.Bucket {
			server := serve(t)
			server.Setenv(t)
			return connect(t, server)
		},
		"a real server of Google Cloud Storage": func(t *testing.T) s3cms.Bucket {
			return objects(t, "gs://bucket/state", repo.Options{GCS: repo.GCSOptions{Endpoint: objectserver.StartGCS(t).Endpoint}})
		},
		"a real server of Azure": func(t *testing.T) s3cms.Bucket {
			a := objectserver.StartAzurite(t)
			return objects(t, "azblob://bucket/state", repo.Options{Azure: repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: a.KeyFile}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("RFSD_SOURCES") != "all" {
				t.Skip("takes half a minute; RFSD_SOURCES=all runs it")
			}
			bucket := connect(t)
			var n atomic.Int64
			cmstest.Run(t, func(t *testing.T) cms.Store {
				return open(t, bucket, fmt.Sprintf("s%d", n.Add(1)))
			})
		})
	}
}
