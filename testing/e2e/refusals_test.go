package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestRefusals_OfIndicesAreNamedAndTheRestIsMigrated: limits of mappings, the limit of shards, and an alias that another index writes. The
// plan names each, the run completes what is not refused, and later commands still name the alias.
func TestRefusals_OfIndicesAreNamedAndTheRestIsMigrated(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/older", map[string]any{"settings": map[string]any{"number_of_replicas": 0}, "aliases": map[string]any{"current": map[string]any{"is_write_index": true}}})
	there := call(t, n, "GET", "/_cluster/health", nil)
	limit := func(shards any) {
		call(t, n, "PUT", "/_cluster/settings", map[string]any{"persistent": map[string]any{"cluster.max_shards_per_node": shards}})
	}
	shards, err := strconv.Atoi(fmt.Sprint(there["active_shards"]))
	must(t, err)
	limit(shards + 4) // five-shards needs five
	defer limit(nil)
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.toml")
	must(t, os.WriteFile(rules, []byte(`
[[index]]
match = ["joined"]
set = [{ path = "/settings/index.mapping.total_fields.limit", value = "1" }]
[[index]]
match = ["nested"]
set = [{ path = "/settings/index.mapping.depth.limit", value = "1" }]
`), 0o600))
	session := []string{"--target-host", n.URL, "--coordinator-file", filepath.Join(dir, "state"), "--session-name", "refusals"}
	args := append([]string{"--repo-uri", fixture(t, "7.10.2-multi-index"), "--snapshot-name", "snap1", "--replicas", "0", "--rules", rules}, session...)
	for _, name := range []string{"joined", "nested", "five-shards", "aliased-v1", "src-filtered"} {
		args = append(args, "--index-allowlist", name)
	}
	names := func(of string, res Result, code int, all ...string) {
		t.Helper()
		if res.Code != code {
			t.Errorf("%s: exit %d, not %d", of, res.Code, code)
		}
		for _, word := range all {
			if !strings.Contains(res.Stdout+res.Stderr, word) {
				t.Errorf("%s does not name %q", of, word)
			}
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", res.Stdout, res.Stderr)
		}
	}
	const alias = "refuses the alias current of"
	names("rfsd plan", RunIn(t, dir, nil, "rfsd", append([]string{"plan"}, args...)...), 7,
		"mapping of joined", "raise index.mapping.total_fields.limit", "mapping of nested", "raise index.mapping.depth.limit", "raise cluster.max_shards_per_node", "alias current", "older is its write index")
	names("rfsd migrate", RunIn(t, dir, nil, "rfsd", append([]string{"migrate"}, args...)...), 7,
		"joined", "Limit of total fields [1]", "nested", "Limit of mapping depth [1]", "five-shards", "maximum shards open", alias, "of another write index")
	for _, name := range []string{"aliased-v1", "src-filtered"} {
		if documentsIn(t, n, name) == 0 {
			t.Errorf("%s has no documents: it is not refused", name)
		}
	}
	names("rfsctl status", RunIn(t, dir, nil, "rfsctl", append([]string{"status"}, session...)...), 7, alias)
	names("rfsd verify", RunIn(t, dir, nil, "rfsd", append([]string{"verify", "--index-allowlist", "aliased-v1", "--repo-uri", fixture(t, "7.10.2-multi-index"), "--snapshot-name", "snap1"}, session...)...), 0, alias)
	call(t, n, "PUT", "/_cluster/settings", map[string]any{"persistent": map[string]any{"cluster.max_shards_per_node": nil}})
	call(t, n, "DELETE", "/older", nil)
	names("rfsd migrate again", RunIn(t, dir, nil, "rfsd", append([]string{"migrate"}, args...)...), 7, "joined", "nested")
	if aliases := fmt.Sprint(call(t, n, "GET", "/aliased-v1/_alias", nil)); !strings.Contains(aliases, "current") {
		t.Errorf("the alias was not set: %s", aliases)
	}
}
