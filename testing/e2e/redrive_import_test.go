package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestRedriveReadsTheFilesOfAnImportAgain has a strict mapping refuse documents of files, whose failed documents hold no
// source, or that only the control index knows.
func TestRedriveReadsTheFilesOfAnImportAgain(t *testing.T) {
	const refused = 300
	n := cluster.OpenSearch(t, targets[0])
	files := t.TempDir()
	for _, name := range []string{"a.ndjson", "b.ndjson.gz"} {
		var lines bytes.Buffer
		for i := range refused / 2 {
			fmt.Fprintf(&lines, "{\"index\":{\"_index\":\"docs\"}}\n{\"file\":%q,\"n\":%d}\n{\"index\":{\"_index\":\"docs\",\"_id\":\"%s%d\"}}\n{}\n", name, i, name, i)
		}
		b := lines.Bytes()
		if strings.HasSuffix(name, ".gz") {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(b)
			must(t, errors.Join(err, z.Close()))
			b = packed.Bytes()
		}
		must(t, os.WriteFile(filepath.Join(files, name), b, 0o600))
	}
	for _, c := range []struct {
		name    string
		args    []string // of the import
		redrive []string
	}{
		{"hash", []string{"--failed-documents-content", "hash"}, nil},
		{"control index", nil, []string{"--from-control-index"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, n)
			call(t, n, "PUT", "/docs", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
			dir := filepath.Join(t.TempDir(), "failed")
			args := append([]string{"import", "--from", files, "--target-host", n.URL, "--session-name", "again", "--failed-documents", dir, "--max-failed-documents", "unlimited",
				"--window-size", "4096", "--output", "json"}, c.args...)
			if res := Run(t, "rfsd", args...); res.Code != 6 {
				t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			redrive := append([]string{"--target-host", n.URL, "--session-name", "again", "--index-allowlist", "docs", "--max-failed-documents", "unlimited"}, c.redrive...)
			if c.redrive == nil {
				redrive = append(redrive, "--failed-documents", dir)
			}
			if res := Run(t, "rfsd", append([]string{"redrive"}, redrive...)...); res.Code != 1 || !strings.Contains(res.Stderr, "--from") {
				t.Errorf("without the files: exit %d: %s", res.Code, res.Stderr)
			}
			if res := Run(t, "rfsd", append([]string{"redrive", "--from", t.TempDir()}, redrive...)...); res.Code != 1 {
				t.Errorf("with other files: exit %d: %s", res.Code, res.Stderr)
			}
			redrive = append(redrive, "--from", files)
			if r := redrives(t, 6, redrive...); r.Failed != refused || r.Indexed != 0 || len(r.Classes) != 1 || r.Classes[0].Class != "strict_mapping" {
				t.Errorf("before the mapping is fixed: %+v", r)
			}
			call(t, n, "PUT", "/docs/_mapping", map[string]any{"dynamic": true})
			if r := redrives(t, 0, redrive...); r.Documents != refused || r.Indexed != refused || !r.Complete {
				t.Errorf("%+v", r)
			}
			if got := countOf(t, n, "docs"); got != 2*refused {
				t.Errorf("%d documents of %d arrived", got, 2*refused)
			}
			if res := Run(t, "rfsd", "verify", "--from", files, "--target-host", n.URL, "--session-name", "again"); res.Code != 0 {
				t.Errorf("verify: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			if r := redrives(t, 0, redrive...); r.Documents != 0 {
				t.Errorf("a second redrive: %+v", r)
			}
		})
	}
}
