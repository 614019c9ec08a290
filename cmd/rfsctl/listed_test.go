package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestListSnapshots_InOrderOfTime: Elasticsearch lists the snapshots of a repository in no order.
func TestListSnapshots_InOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testing", "fixtures", "7.10.2-history"))))
	blobs, err := filepath.Glob(filepath.Join(dir, "index-*"))
	must(t, err)
	if len(blobs) != 1 {
		t.Fatalf("catalogs: %v", blobs)
	}
	b, err := os.ReadFile(blobs[0])
	must(t, err)
	var catalog map[string]json.RawMessage
	must(t, json.Unmarshal(b, &catalog))
	var snapshots []json.RawMessage
	must(t, json.Unmarshal(catalog["snapshots"], &snapshots))
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		var mixed []json.RawMessage
		for _, n := range order {
			mixed = append(mixed, snapshots[n])
		}
		catalog["snapshots"], err = json.Marshal(mixed)
		must(t, err)
		b, err := json.Marshal(catalog)
		must(t, err)
		must(t, os.WriteFile(blobs[0], b, 0o600))
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"rfsctl", "snapshot", "list", "--repo-uri", dir}, &stdout, &stderr)
		var names []string
		for _, line := range strings.Split(stdout.String(), "\n")[1:] {
			if name, _, ok := strings.Cut(line, " "); ok {
				names = append(names, name)
			}
		}
		if code != 0 || !slices.Equal(names, []string{"snap-1", "snap-3"}) {
			t.Errorf("%v: exit %d: %s%s", order, code, stdout.String(), stderr.String())
		}
	}
}
