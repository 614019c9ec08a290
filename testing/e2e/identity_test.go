package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusedWith fails unless a run ended with exit code 1 and its error has every word.
func refusedWith(t *testing.T, r Result, words ...string) {
	t.Helper()
	if r.Code != 1 {
		t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			t.Errorf("%q is not in: %s", w, r.Stderr)
		}
	}
}

// TestASessionIsOfOneDestinationAndSnapshot: the state of the work is good for what it was begun with only.
func TestASessionIsOfOneDestinationAndSnapshot(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "repository")
	must(t, os.CopyFS(repo, os.DirFS(demoRepo())))
	run := func(args ...string) Result {
		return RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1"}, args...)...)
	}
	done := func(args ...string) {
		t.Helper()
		if r := run(args...); r.Code != 0 {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	done("--discard", "--coordinator-file", "rehearsal.db")
	done("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd")
	done("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd")
	t.Run("a rehearsal is no export", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d2", "--coordinator-file", "rehearsal.db"), "destination was", "rehearsal", "export directory", "--session-name")
	})
	t.Run("another export directory", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d3", "--coordinator-file", "f.db", "--export-compression", "zstd"), "destination-id was")
	})
	t.Run("another compression", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "gzip"), `export-compression was "zstd", is "gzip"`)
	})
	t.Run("another snapshot under the name", func(t *testing.T) {
		must(t, os.RemoveAll(repo))
		must(t, os.CopyFS(repo, os.DirFS(filepath.Join(Root(), "testing", "fixtures", "7.10.2-basic"))))
		refusedWith(t, run("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd"), "snapshot-uuid was")
		r := RunIn(t, dir, nil, "rfsd", "worker", "--repo-uri", repo, "--snapshot-name", "snap1", "--discard", "--coordinator-file", "rehearsal.db")
		refusedWith(t, r, "snapshot-uuid was")
	})
}
