package snapshot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestARepositoryOneLevelUpOrDownIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // next to the folder a/b, which is given
		want  string
	}{
		{"nothing near", []string{"a/b/c/d/index.latest", "a/c/index.latest", "index.latest"}, "give the folder or prefix that holds index.latest"},
		{"the folder of a shard is not a repository", []string{"a/b/0/index-4"}, "give the folder or prefix that holds index.latest"},
		{"a file of that name is not a catalog", []string{"a/b/page/index"}, "give the folder or prefix that holds index.latest"},
		{"one level up", []string{"a/index.latest"}, "there is one in file://ROOT/a: give that"},
		{"one level up, before 5.0", []string{"a/index"}, "there is one in file://ROOT/a: give that"},
		{"one level down", []string{"a/b/c/index.latest", "a/b/c/index-3", "a/b/c/indices/x/0/index-1"}, "there is one in file://ROOT/a/b/c: give that"},
		{"up and down", []string{"a/index.latest", "a/b/c/index"}, "there are repositories in file://ROOT/a, file://ROOT/a/b/c: give one of them"},
		{"more than are named", []string{"a/b/1/index", "a/b/2/index", "a/b/3/index", "a/b/4/index", "a/b/5/index", "a/b/6/index"},
			"there are repositories in file://ROOT/a/b/1, file://ROOT/a/b/2, file://ROOT/a/b/3, file://ROOT/a/b/4, file://ROOT/a/b/5 and more: give one of them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			given := filepath.Join(root, "a", "b")
			if err := os.MkdirAll(given, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, f := range c.files {
				name := filepath.Join(root, filepath.FromSlash(f))
				content := `{"snapshots":["s"]}`
				switch {
				case strings.HasSuffix(f, "latest"):
					content = "\x00\x00\x00\x00\x00\x00\x00\x03"
				case strings.HasPrefix(f, "a/b/page"):
					content = "<html><body>"
				}
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := repo.NewDir(given)
			if err != nil {
				t.Fatal(err)
			}
			_, err = snapshot.OpenCatalog(t.Context(), dir)
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), strings.ReplaceAll(c.want, "ROOT", root)) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
