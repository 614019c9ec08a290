package abuse

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// pack writes a file of documents before and behind one of n blanks, and returns by how much it was compressed.
func pack(t *testing.T, file string, n int) (ratio int64) {
	t.Helper()
	f, err := os.Create(file)
	must(t, err)
	defer f.Close()
	var w io.WriteCloser
	if strings.HasSuffix(file, ".gz") {
		w, err = gzip.NewWriterLevel(f, gzip.DefaultCompression)
	} else {
		w, err = zstd.NewWriter(f)
	}
	must(t, err)
	action := func(id string) string { return `{"index":{"_index":"i","_id":"` + id + `"}}` + "\n" }
	text := io.MultiReader(strings.NewReader(action("a")+"{\"n\":1}\n"+action("big")+`{"s":"`), repeated(" ", n), strings.NewReader("\"}\n"+action("b")+"{\"n\":2}\n"))
	size, err := io.Copy(w, text)
	must(t, err)
	must(t, w.Close())
	info, err := f.Stat()
	must(t, err)
	return size / info.Size()
}

// TestHugeDocumentsOfAnImport: one that the target takes arrives, whatever its ratio; one beyond it is named and not held.
func TestHugeDocumentsOfAnImport(t *testing.T) {
	for _, c := range []struct {
		name, file string
		blanks     int
		arrives    bool
	}{
		{"DEFLATE, what the target takes", "d.ndjson.gz", 100_000_000, true},
		{"zstd, what the target takes", "d.ndjson.zst", 100_000_000, true},
		{"DEFLATE, two and a half times that", "d.ndjson.gz", 250_000_000, false},
		{"zstd, two and a half times that", "d.ndjson.zst", 250_000_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if ratio := pack(t, filepath.Join(dir, c.file), c.blanks); ratio < 1000 {
				t.Fatalf("compressed by %d only", ratio)
			}
			failed := filepath.Join(t.TempDir(), "failed")
			e := run(t, patience+10*time.Second, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "import", "--from", dir, "--target-host", serve(t, &cluster{}), "--coordinator-file", filepath.Join(t.TempDir(), "state.db"),
				"--failed-documents", failed, "--output", "json")
			want, code := `"indexed": 3`, 0
			if !c.arrives {
				want, code = `"indexed": 2`, 6
			}
			if e.late || e.code != code || !strings.Contains(e.stdout, want) {
				t.Errorf("exit %d, ran on %t: %s %.1000s", e.code, e.late, e.stdout, e.stderr)
			}
			if e.memory > mostMemory {
				t.Errorf("it took %d MB", e.memory>>20)
			}
			if reasons := recorded(t, failed); strings.Contains(reasons, "too_large") == c.arrives {
				t.Errorf("recorded as failed: %q", reasons)
			}
		})
	}
}

// recorded returns the reasons in a directory of failed documents.
func recorded(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if b, rerr := os.ReadFile(path); err == nil && rerr == nil {
			all = append(all, regexp.MustCompile(`too_large|bad_[a-z]+`).FindString(string(b)))
		}
		return nil
	})
	return strings.Join(all, " ")
}
