package live_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/live"
)

func TestRepositorySettings(t *testing.T) {
	for _, c := range []struct {
		name, kind, uri, location, region string
		is                                string // the kind; "": refused
		want                              map[string]string
	}{
		{"a directory", "", "/snapshots", "", "", "fs", map[string]string{"location": "/snapshots"}},
		{"a directory that has another path on the source", "", "/mnt/snapshots", "/data", "", "fs", map[string]string{"location": "/data"}},
		{"a relative path on the source", "", "/snapshots", "data", "", "", nil},
		{"a bucket", "", "s3://b/a/c/", "", "eu-west-1", "s3", map[string]string{"bucket": "b", "base_path": "a/c", "region": "eu-west-1"}},
		{"a bucket that is mounted here", "s3", "/mnt/b", "b", "", "s3", map[string]string{"bucket": "b"}},
		{"no bucket", "s3", "/mnt/b", "/", "", "", nil},
		{"a bucket of Google", "", "gs://b/a/c", "", "eu-west-1", "gcs", map[string]string{"bucket": "b", "base_path": "a/c"}},
		{"a container of Azure", "", "azblob://b/a/c", "", "", "azure", map[string]string{"container": "b", "base_path": "a/c"}},
		{"a container that the source names otherwise", "", "azblob://b/a", "azblob://c", "", "azure", map[string]string{"container": "c"}},
		{"a web server", "", "https://host/snapshots", "", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, got, err := live.RepositorySettings(c.kind, c.uri, c.location, c.region)
			if c.is == "" {
				if !errors.Is(err, fault.ErrConfig) {
					t.Errorf("%s %v, %v", kind, got, err)
				}
				return
			}
			if err != nil || kind != c.is || !maps.Equal(got, c.want) {
				t.Errorf("%s %v, %v", kind, got, err)
			}
		})
	}
}
