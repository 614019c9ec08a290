package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		wanted := false
		for _, prefix := range overS3 {
			wanted = wanted || strings.HasPrefix(r.name, prefix)
		}
		if !wanted {
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
