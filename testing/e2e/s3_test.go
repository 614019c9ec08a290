package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

// overS3 are the bundled snapshots that go over the network too: one of each form of
// repository, some with files of many chunks.
var overS3 = []string{"1.7.6-updates-deletes/", "2.4.6-history/", "5.6.16-many-chunks/", "7.10.2-demo/", "os2.19.4-hashed-path/"}

func TestExportsFromABadS3ServerEqualTheClustersOwnAccount(t *testing.T) {
	root, state := filepath.Join(Root(), "testing", "fixtures"), t.TempDir()
	server, counts := s3server.Start(t, state).Faulty(t, 20, "export")
	server.Setenv(t)
	t.Setenv("RFS_S3_ENDPOINT", server.Endpoint)
	t.Setenv("RFS_S3_REGION", server.Region)
	t.Setenv("RFS_S3_PATH_STYLE", "true")
	compared := 0
	for _, r := range repositories(t, root) {
		if !slices.ContainsFunc(overS3, func(prefix string) bool { return strings.HasPrefix(r.name, prefix) }) {
			continue
		}
		name := filepath.Base(r.path)
		if bucket := filepath.Join(state, "bucket", "snapshots", name); !exists(bucket) {
			if err := os.CopyFS(bucket, os.DirFS(r.path)); err != nil {
				t.Fatal(err)
			}
		}
		r.path = "s3://bucket/snapshots/" + name
		t.Run(r.name, func(t *testing.T) { t.Log(exportEquals(t, r)) })
		compared++
	}
	if compared < len(overS3) {
		t.Errorf("%d snapshots were compared", compared)
	}
	f := counts()
	t.Logf("%+v", f)
	if f.Requests == 0 || f.Sum()*100/f.Requests < 10 {
		t.Errorf("the server was better than it should be: %+v", f)
	}
}

// TestExportsFromEachObjectStoreEqualTheClustersOwnAccount reads snapshots through the servers of Google Cloud Storage and of Azure.
func TestExportsFromEachObjectStoreEqualTheClustersOwnAccount(t *testing.T) {
	root := filepath.Join(Root(), "testing", "fixtures")
	for scheme, start := range map[string]func(t *testing.T) func(t testing.TB, name string, body []byte){
		"gs": func(t *testing.T) func(t testing.TB, name string, body []byte) {
			s := objectserver.StartGCS(t)
			t.Setenv("RFS_GCS_ENDPOINT", s.Endpoint)
			return s.Put
		},
		"azblob": func(t *testing.T) func(t testing.TB, name string, body []byte) {
			a := objectserver.StartAzurite(t)
			t.Setenv("RFS_AZURE_ACCOUNT", a.Account)
			t.Setenv("RFS_AZURE_ENDPOINT", a.Endpoint)
			t.Setenv("RFS_AZURE_KEY_FILE", a.KeyFile)
			return a.Put
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			put := start(t)
			compared, stored := 0, map[string]bool{}
			for _, r := range repositories(t, root) {
				if !slices.ContainsFunc(overS3, func(prefix string) bool { return strings.HasPrefix(r.name, prefix) }) {
					continue
				}
				name := filepath.Base(r.path)
				if !stored[name] {
					stored[name] = true
					upload(t, r.path, "snapshots/"+name+"/", put)
				}
				r.path = scheme + "://bucket/snapshots/" + name
				t.Run(r.name, func(t *testing.T) { t.Log(exportEquals(t, r)) })
				compared++
			}
			if compared < len(overS3) {
				t.Errorf("%d snapshots were compared", compared)
			}
		})
	}
}

// upload writes the files of a directory to a store.
func upload(t *testing.T, dir, prefix string, put func(t testing.TB, name string, body []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		put(t, prefix+filepath.ToSlash(name), b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
