package abuse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
)

const (
	highData = "Lucene90StoredFieldsHighData"
	zstd814  = "ZstdStoredFields814"
	// whatAClusterWrites is http.max_content_length of a cluster that was not configured otherwise.
	whatAClusterWrites = 100 << 20
)

// moves are the ways of a snapshot in which no request of the target bounds a document.
func moves(t *testing.T) map[string]func(dir, failed string) []string {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(rules, []byte("[[document]]\nmatch = \"*\"\ndrop = [\"n\", \"absent\"]\nrename = [{from = \"s\", to = \"t\"}]\n"), 0o600))
	common := func(dir, failed string, more ...string) []string {
		return append([]string{"migrate", "--repo-uri", dir, "--snapshot-name", "snap1", "--index-allowlist", "order-check", "--failed-documents", failed, "--output", "json",
			"--coordinator-file", filepath.Join(t.TempDir(), "state.db")}, more...)
	}
	target := func(dir, failed string, c *cluster, more ...string) []string {
		return common(dir, failed, append([]string{"--target-host", serve(t, c), "--target-username", "admin", "--phases", "documents"}, more...)...)
	}
	return map[string]func(dir, failed string) []string{
		"files": func(dir, failed string) []string {
			return common(dir, failed, "--export-dir", filepath.Join(t.TempDir(), "out"))
		},
		"a target that does not tell its limit": func(dir, failed string) []string { return target(dir, failed, &cluster{secret: true}) },
		"rules that may shorten it":             func(dir, failed string) []string { return target(dir, failed, &cluster{}, "--rules", rules) },
		"rules that may shorten it, into files": func(dir, failed string) []string {
			return common(dir, failed, "--rules", rules, "--export-dir", filepath.Join(t.TempDir(), "out"))
		},
	}
}

// TestDocumentsThatNoTargetBounds: what a cluster can write by default arrives, whatever its ratio; what is longer is named
// with the setting that moves it, and not held.
func TestDocumentsThatNoTargetBounds(t *testing.T) {
	draw.Test(t)
	for _, c := range []struct {
		name, codec string
		length      int
		arrives     bool
	}{
		{"what a cluster writes", zstd814, whatAClusterWrites, true},
		{"one byte more", zstd814, whatAClusterWrites + 1, false},
		{"250 MB", highData, 250_000_000, false},
		{"2 GB", zstd814, 2_000_000_000, false},
	} {
		dir, ratio := snapshotOf(t, c.codec, source{`{"s":"`, " ", c.length - 8, `"}`})
		if ratio < 1000 {
			t.Fatalf("compressed by %d only", ratio)
		}
		for name, args := range moves(t) {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				failed := filepath.Join(t.TempDir(), "failed")
				e := run(t, 4*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", args(dir, failed)...)
				want, code := `"indexed": 3`, 0
				if !c.arrives {
					want, code = `"indexed": 2`, 6
				}
				if e.late || e.code != code || !strings.Contains(e.stdout, want) {
					t.Errorf("exit %d, ran on %t: %s %.1000s", e.code, e.late, e.stdout, e.stderr)
				}
				if text := failures(t, failed); !c.arrives && !strings.Contains(text, "--max-document-size") || c.arrives && text != "" {
					t.Errorf("failed documents: %.300s", text)
				}
				t.Logf("%d MB", e.memory>>20)
				if e.memory > mostMemory {
					t.Errorf("it took %d MB", e.memory>>20)
				}
			})
		}
	}
}

// TestEightSlotsWithLongDocumentsAtOnce: eight shards have a document as long as a cluster writes.
func TestEightSlotsWithLongDocumentsAtOnce(t *testing.T) {
	files, _ := shardOf(t, zstd814, source{`{"s":"`, " ", whatAClusterWrites - 8, `"}`})
	dir := fixtureOf(t, "7.10.2-multi-index")
	shards, err := filepath.Glob(filepath.Join(dir, "indices", "*", "[0-9]"))
	must(t, err)
	for _, shard := range shards[:8] {
		writeShard(t, shard, files)
	}
	for name, more := range map[string][]string{
		"into a target": {"--target-host", serve(t, &cluster{}), "--target-username", "admin", "--phases", "documents"},
		"into files":    {"--export-dir", filepath.Join(t.TempDir(), "out")},
	} {
		t.Run(name, func(t *testing.T) {
			e := run(t, 6*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", append([]string{"migrate", "--repo-uri", dir, "--snapshot-name", "snap1", "--slots", "8",
				"--coordinator-file", filepath.Join(t.TempDir(), "state.db"), "--output", "json"}, more...)...)
			t.Logf("exit %d, %d MB", e.code, e.memory>>20)
			arrived := strings.Contains(e.stdout, `"indexed": 240`) && strings.Contains(e.stdout, `"failed": 0`)
			if e.late || e.code != 6 || !arrived { // the fixture has an index whose sources are filtered: 6
				t.Errorf("exit %d, ran on %t: %.800s %.1000s", e.code, e.late, e.stdout, e.stderr)
			}
			if e.memory > mostMemory {
				t.Errorf("it took %d MB", e.memory>>20)
			}
		})
	}
}

// TestOtherCommandsKeepWithinTheBudget: commands that read a snapshot and move nothing, where a document has 2 GB.
func TestOtherCommandsKeepWithinTheBudget(t *testing.T) {
	dir, _ := snapshotOf(t, zstd814, source{`{"s":"`, " ", 2_000_000_000, `"}`})
	from := []string{"--repo-uri", dir, "--snapshot-name", "snap1"}
	target := []string{"--target-host", serve(t, &cluster{}), "--target-username", "admin"}
	for name, args := range map[string][]string{
		"plan":           append(append([]string{"rfsd", "plan", "--documents"}, from...), target...),
		"snapshot check": append([]string{"rfsctl", "snapshot", "check"}, from...),
		"snapshot show":  append([]string{"rfsctl", "snapshot", "show"}, from...),
	} {
		t.Run(name, func(t *testing.T) {
			e := run(t, 2*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, args[0], args[1:]...)
			t.Logf("exit %d, %d MB", e.code, e.memory>>20)
			if e.late || e.memory > mostMemory {
				t.Errorf("ran on %t, %d MB: %.1000s", e.late, e.memory>>20, e.stderr)
			}
		})
	}
}

// TestComparisonsKeepWithinTheBudget: verify, with a long document in the snapshot, in the target, or in both.
func TestComparisonsKeepWithinTheBudget(t *testing.T) {
	draw.Test(t)
	blanks := func(n int) source { return source{`{"s":"`, " ", n - 8, `"}`} }
	for _, c := range []struct {
		name             string
		snapshot, target int
		names            string // what is said of it
	}{
		{"2 GB in the snapshot", 2_000_000_000, 100, "too_large"},
		{"2 GB in the target", 100, 2_000_000_000, "--max-document-size"},
		{"what a cluster writes, in the snapshot", whatAClusterWrites, 60 << 20, "different"},
		{"what a cluster writes, in the target", 100, whatAClusterWrites, "different"},
		{"what a cluster writes, in both", whatAClusterWrites, whatAClusterWrites, "different"},
		{"more in the target", 100, whatAClusterWrites + 70<<10, "--max-document-size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := snapshotOf(t, zstd814, blanks(c.snapshot))
			held := blanks(c.target)
			cluster := &cluster{held: &held}
			state := filepath.Join(t.TempDir(), "state") // where the comparison keeps its items: of an export, which is a session
			small, _ := snapshotOf(t, zstd814, blanks(100))
			if e := run(t, time.Minute, nil, "rfsd", "migrate", "--export-dir", filepath.Join(t.TempDir(), "out"), "--repo-uri", small, "--snapshot-name", "snap1", "--coordinator-file", state); e.code != 0 {
				t.Fatalf("exit %d: %s", e.code, e.stderr)
			}
			e := run(t, 2*time.Minute, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "verify", "--index-allowlist", "order-check", "--repo-uri", dir, "--snapshot-name", "snap1",
				"--target-host", serve(t, cluster), "--target-username", "admin", "--coordinator-file", state)
			t.Logf("exit %d, %d MB, %d pages: %.600s %.600s", e.code, e.memory>>20, cluster.pages, e.stdout, e.stderr)
			if e.late || e.memory > mostMemory {
				t.Errorf("ran on %t, %d MB", e.late, e.memory>>20)
			}
			if cluster.pages == 0 || !strings.Contains(e.stdout+e.stderr, c.names) {
				t.Errorf("%d pages were read; the document is not named", cluster.pages)
			}
		})
	}
}

// TestFormsOfLongDocuments: sources that are converted, changed or refused, each as long as a cluster can write it.
func TestFormsOfLongDocuments(t *testing.T) {
	draw.Test(t)
	name := strings.Repeat("n", 64)
	lists := source{"[", "1,", 50_000_000, "1]"}
	smile := source{":)\n\x03\xfa" + "\x80a" + "\xf8" + "\x7f" + name, "\x01", 3_900_000, "\xf9\xfb"} // 66 characters of JSON each
	for _, c := range []struct {
		name    string
		s       source
		arrives bool
		reason  string
	}{
		{"JSON of many lines", source{"{\"s\":[", "1,\n", whatAClusterWrites/3 - 10, "1]}"}, true, ""},
		{"JSON that never ends", source{"{\"s\":[", "1,\n", whatAClusterWrites/3 - 10, "1"}, true, ""}, // the target judges it
		{"a line break within a text", source{"{\"s\":\"", "1,\n", whatAClusterWrites/3 - 10, "\"}"}, false, "raw_line_break"},
		{"YAML of many values", lists, false, "bad_source"},
		{"YAML of many values, shorter", source{"[", "1,", 1_500_000, "1]"}, false, "bad_source"},
		{"SMILE that becomes 250 MB", smile, false, "too_large"},
		{"CBOR that becomes 600 MB", source{"\xa1\x61a\x7a\x06\x00\x00\x00", "\x01", 100_663_296, ""}, false, "too_large"},
	} {
		dir, _ := snapshotOf(t, zstd814, c.s)
		for name, args := range moves(t) {
			if name != "files" && (name != "rules that may shorten it, into files" || c.name != "JSON of many lines") {
				continue // the same as into files
			}
			t.Run(c.name+"/"+name, func(t *testing.T) {
				failed := filepath.Join(t.TempDir(), "failed")
				e := run(t, 4*time.Minute, nil, "rfsd", args(dir, failed)...)
				if e.late || e.code != 0 && e.code != 6 {
					t.Errorf("exit %d, ran on %t: %s %.1000s", e.code, e.late, e.stdout, e.stderr)
				}
				if !strings.Contains(name, "rules") && c.arrives != strings.Contains(e.stdout, `"indexed": 3`) {
					t.Errorf("%s", e.stdout)
				}
				if text := failures(t, failed); !strings.Contains(text, c.reason) {
					t.Errorf("failed documents: %.300s", text)
				}
				t.Logf("%d MB", e.memory>>20)
				if e.memory > mostMemory {
					t.Errorf("it took %d MB", e.memory>>20)
				}
			})
		}
	}
}

// failures returns the beginning of each file of failed documents.
func failures(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // nothing failed
		}
		f, err := os.Open(path)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		defer f.Close()
		b := make([]byte, 4096)
		n, _ := f.Read(b)
		all.Write(b[:n])
		return nil
	})
	return all.String()
}
