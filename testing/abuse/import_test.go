package abuse

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rfsd/rfsd/testing/draw"
)

// pack writes a file of documents before and behind one of n blanks, and returns by how much it was compressed. Frames of
// zstd look back so many bytes.
func pack(t *testing.T, file string, n, back int) (ratio int64) {
	t.Helper()
	f, err := os.Create(file)
	must(t, err)
	defer f.Close()
	var w io.WriteCloser
	if strings.HasSuffix(file, ".gz") {
		w, err = gzip.NewWriterLevel(f, gzip.DefaultCompression)
	} else {
		w, err = zstd.NewWriter(f, zstd.WithWindowSize(back), zstd.WithEncoderConcurrency(1))
	}
	must(t, err)
	action := func(id string) string { return `{"index":{"_index":"i","_id":"` + id + `"}}` + "\n" }
	small := io.MultiReader()
	if back > 8<<20 { // all that is looked back on is held while these are sent
		small = io.MultiReader(strings.NewReader(action("c")+`{"s":"`), repeated(" ", n), strings.NewReader("\"}\n"), repeated(`{"index":{"_index":"i"}}`+"\n{}\n", manySmall-1))
	}
	text := io.MultiReader(strings.NewReader(action("a")+"{\"n\":1}\n"+action("big")+`{"s":"`), repeated(" ", n), strings.NewReader("\"}\n"+action("b")+"{\"n\":2}\n"), small)
	size, err := io.Copy(w, text)
	must(t, err)
	must(t, w.Close())
	info, err := f.Stat()
	must(t, err)
	return size / info.Size()
}

// TestHugeDocumentsOfAnImport: one that the target takes arrives, whatever its ratio; one beyond it is named and not held.
func TestHugeDocumentsOfAnImport(t *testing.T) {
	draw.Test(t)
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
			if ratio := pack(t, filepath.Join(dir, c.file), c.blanks, 8<<20); ratio < 1000 {
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

// TestZstdFilesThatLookBackFar: as far as is taken at all, in each slot, with a document that the target takes in each.
func TestZstdFilesThatLookBackFar(t *testing.T) {
	draw.Test(t)
	for _, slots := range []string{"2", "8"} {
		t.Run(slots+" slots", func(t *testing.T) {
			dir := t.TempDir()
			pack(t, filepath.Join(dir, "0.ndjson.zst"), 100_000_000, 128<<20)
			b, err := os.ReadFile(filepath.Join(dir, "0.ndjson.zst"))
			must(t, err)
			for _, name := range []string{"1", "2", "3"} {
				must(t, os.WriteFile(filepath.Join(dir, name+".ndjson.zst"), b, 0o600))
			}
			e := run(t, 4*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "import", "--from", dir, "--target-host", serve(t, &cluster{}), "--coordinator-file", filepath.Join(t.TempDir(), "state.db"),
				"--failed-documents", filepath.Join(t.TempDir(), "failed"), "--slots", slots, "--output", "json")
			if e.late || e.code != 0 || !strings.Contains(e.stdout, `"indexed": `+strconv.Itoa(4*(3+manySmall))) {
				t.Errorf("exit %d, ran on %t: %s %.1000s", e.code, e.late, e.stdout, e.stderr)
			}
			t.Logf("%d MB", e.memory>>20)
			if e.memory > mostMemory {
				t.Errorf("it took %d MB", e.memory>>20)
			}
		})
	}
}

const manySmall = 50_000

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

// TestLinesOfFailedDocuments: one that is longer than any document, and one as long as a cluster takes.
func TestLinesOfFailedDocuments(t *testing.T) {
	draw.Test(t)
	for _, c := range []struct {
		name   string
		length int
		code   int
		wants  string
	}{
		{"100 MiB", whatAClusterWrites, 0, `"indexed": 1`},
		{"700 MB", 700_000_000, 1, "--max-document-size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, "w.ndjson"))
			must(t, err)
			defer f.Close()
			_, err = io.Copy(f, io.MultiReader(strings.NewReader(`{"index":"i","id":"big","shard":0,"ordinal":1,"reason":"x","status":400,"detail":"d","source":{"s":"`), repeated(" ", c.length-8), strings.NewReader("\"}}\n")))
			must(t, err)
			e := run(t, 2*time.Minute, nil, "rfsctl", "failures", "--failed-documents", dir, "--output", "json")
			t.Logf("failures: %d MB", e.memory>>20)
			if e.late || e.code != 6 || !strings.Contains(e.stdout, "big") || e.memory > 128<<20 {
				t.Errorf("exit %d, ran on %t, %d MB: %s %.1000s", e.code, e.late, e.memory>>20, e.stdout, e.stderr)
			}
			e = run(t, 2*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "redrive", "--failed-documents", dir, "--index-allowlist", "i", "--target-host", serve(t, &cluster{}), "--output", "json")
			t.Logf("redrive: %d MB", e.memory>>20)
			if e.late || e.code != c.code || !strings.Contains(e.stdout+e.stderr, c.wants) || e.memory > mostMemory {
				t.Errorf("exit %d, ran on %t, %d MB: %.1000s %.1000s", e.code, e.late, e.memory>>20, e.stdout, e.stderr)
			}
		})
	}
}

// shelf is as much of an object store as a redrive asks for: one object, and what replaces it.
type shelf struct {
	object func() io.Reader
	size   int64
	put    int64 // bytes that were stored in its place; -1: none
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPut:
		s.put, _ = io.Copy(io.Discard, r.Body)
	case r.URL.Query().Has("list-type"):
		fmt.Fprintf(w, `<ListBucketResult><Contents><Key>f/default/i/0/w/000000.ndjson</Key><Size>%d</Size></Contents></ListBucketResult>`, s.size)
	default:
		w.Header().Set("Content-Length", fmt.Sprint(s.size))
		_, _ = io.Copy(w, s.object())
	}
}

// TestObjectsOfFailedDocuments: what replaces an object of a bucket is not held, however long that is.
func TestObjectsOfFailedDocuments(t *testing.T) {
	draw.Test(t)
	const again = `{"index":"i","id":"a","shard":0,"ordinal":1,"reason":"x","detail":"`
	line := func(id string) string { return strings.Replace(again, `"a"`, `"`+id+`"`, 1) }
	const detail, lines = 1 << 20, 600
	s := &shelf{put: -1, size: lines * int64(len(line("000"))+detail+3)}
	s.object = func() io.Reader {
		var parts []io.Reader
		for i := range lines {
			parts = append(parts, strings.NewReader(line(fmt.Sprintf("%03d", max(i, 1)))), repeated("x", detail), strings.NewReader("\"}\n")) // the first is there twice
		}
		return io.MultiReader(parts...)
	}
	store := httptest.NewServer(s)
	t.Cleanup(store.Close)
	e := run(t, 4*time.Minute, []string{"RFS_TARGET_PASSWORD=x", "AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=s"}, "rfsd", "redrive", "--failed-documents", "s3://bucket/f", "--index-allowlist", "i",
		"--s3-endpoint", store.URL, "--s3-path-style", "--s3-region", "eu-west-1", "--target-host", serve(t, &cluster{}), "--output", "json")
	t.Logf("exit %d, %d MB, %d bytes of %d: %.600s", e.code, e.memory>>20, s.put, s.size, e.stderr)
	if e.late || e.memory > mostMemory {
		t.Errorf("ran on %t, %d MB", e.late, e.memory>>20)
	}
	if s.put < s.size/lines*(lines-1) {
		t.Errorf("%d bytes were stored instead of %d", s.put, s.size)
	}
}
