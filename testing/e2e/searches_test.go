package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/answers"
	"github.com/rfsd/rfsd/testing/cluster"
)

// rebuiltSnapshots are snapshots whose sources are rebuilt, with what the cluster that wrote them answered to searches.
var rebuiltSnapshots = []string{"rfs/rebuild/testdata/8.19.21-rebuild", "rfs/rebuild/testdata/9.5.3-rebuild", "testing/fixtures/os3.8.0-derived"}

// TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource migrates snapshots whose sources are rebuilt, and asks the target what
// the source was asked (testing/answers): for every field the documents that have it, its values, and those between two of
// them. By default each snapshot is sent to one target; RFSD_SOURCES=all sends all to all.
func TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource(t *testing.T) {
	for i, path := range rebuiltSnapshots {
		for j, version := range targets {
			if os.Getenv("RFSD_SOURCES") != "all" && i%len(targets) == j {
				continue
			}
			t.Run(filepath.Base(path)+" into "+version, func(t *testing.T) {
				repository := filepath.Join(Root(), path)
				source, err := answers.Load(repository + ".answers.json")
				must(t, err)
				var indices []string
				for _, s := range source {
					if !slices.Contains(indices, s.Index) {
						indices = append(indices, s.Index)
					}
				}
				n, dir := cluster.OpenSearch(t, version), t.TempDir()
				wipe(t, n)
				res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repository, "--index-allowlist", strings.Join(indices, ","), "--failed-documents", filepath.Join(dir, "failed"))...)
				if res.Code != 0 {
					t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
				}
				call(t, n, "POST", "/_refresh", nil)
				client, err := n.Client()
				must(t, err)
				target, err := answers.Ask(t.Context(), client, source)
				must(t, err)
				hits, found := 0, 0
				for _, s := range source {
					if hits += len(s.IDs); len(s.IDs) > 0 {
						found++
					}
				}
				for _, fault := range answers.Differ(source, target) {
					t.Error(fault)
				}
				t.Logf("%d searches of %d indices, %d of them with hits: %d", len(source), len(indices), found, hits)
			})
		}
	}
}
