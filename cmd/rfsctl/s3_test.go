package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/check"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/s3server"
)

func TestABucketIsCheckedLikeADirectory(t *testing.T) {
	for _, name := range generations {
		dir, _ := unpack(t, name)
		root := t.TempDir()
		if err := os.CopyFS(filepath.Join(root, "bucket", "some", "prefix"), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		server := s3server.Start(t, root)
		server.Setenv(t)
		t.Setenv("RFS_S3_REGION", server.Region)
		t.Setenv("RFS_S3_PATH_STYLE", "true")
		try := func(args ...string) (out check.Report) {
			t.Helper()
			var stdout, stderr bytes.Buffer
			args = append([]string{"rfsctl", "snapshot", "check", "--output", "json"}, args...)
			if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s%s", code, stdout.String(), stderr.String())
			}
			if err := outputtest.Decode(stdout.Bytes(), &out); err != nil {
				t.Fatal(err)
			}
			out.Repository = ""
			return out
		}
		want := try("--repo-uri", dir)
		got := try("--repo-uri", "s3://bucket/some/prefix", "--s3-endpoint", server.Endpoint)
		if !reflect.DeepEqual(got, want) || got.FilesRead == 0 {
			t.Errorf("%s: in the bucket\n%+v\nin the directory\n%+v", name, got, want)
		}
	}
}
