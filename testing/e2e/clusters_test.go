package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// clusterUUID is the id of a cluster, which no other has.
func clusterUUID(t *testing.T, n *cluster.Node) string {
	t.Helper()
	id, ok := call(t, n, "GET", "/", nil)["cluster_uuid"].(string)
	if !ok || id == "" {
		t.Fatalf("%s has no cluster_uuid", n.URL)
	}
	return id
}

// TestAStateIsOfOneCluster checks that work that is done for one cluster is not done for another, regardless of the coordination store.
func TestAStateIsOfOneCluster(t *testing.T) {
	a := cluster.OpenSearch(t, targets[0])
	b := cluster.OpenSearch(t, targets[0], cluster.Heap("512m")) // a cluster of its own
	dir := t.TempDir()
	run := func(args []string, more ...string) Result {
		return RunIn(t, dir, nil, "rfsd", append(slices.Clone(args), more...)...)
	}
	migrate := []string{"migrate", "--repo-uri", demoRepo(), "--snapshot-name", "snap1"}
	out := filepath.Join(dir, "out")
	if r := run(migrate, "--export-dir", out); r.Code != 0 {
		t.Fatalf("export: exit %d: %s", r.Code, r.Stderr)
	}
	imports := []string{"import", "--from", out, "--create-indices"}
	for _, c := range []struct {
		name  string
		args  []string
		state []string // where the state is kept
	}{
		{"migrate, the state in a file", migrate, []string{"--coordinator-file", "migrate.db"}},
		{"migrate, the state in the first cluster", migrate, []string{"--coordinator-host", a.URL, "--session-name", "m"}},
		{"import, the state in a file", imports, []string{"--coordinator-file", "import.db"}},
		{"import, the state in the first cluster", imports, []string{"--coordinator-host", a.URL, "--session-name", "i"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, a)
			args := append(slices.Clone(c.args), c.state...)
			for range 2 { // the second run finds all done
				if r := run(args, "--target-host", a.URL); r.Code != 0 {
					t.Fatalf("exit %d: %s", r.Code, r.Stderr)
				}
			}
			r := run(args, "--target-host", b.URL)
			refusedWith(t, r, `destination-id was "`+clusterUUID(t, a)+`", is "`+clusterUUID(t, b)+`"`, "--session-name")
			if strings.Contains(r.Stderr, "destination was") {
				t.Errorf("a difference that is none is stated: %s", r.Stderr)
			}
			if n := len(landed(t, b)); n != 0 {
				t.Errorf("%d documents arrived all the same", n)
			}
		})
	}
}
