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
var rebuiltSnapshots = []struct {
	path    string
	fields  []string // that are not asked for
	indices []string // that are not migrated
}{
	// The cluster itself answers with fewer digits of these moments than it has indexed.
	{"testing/fixtures/os3.8.0-derived", []string{"date_custom", "date_custom_both", "date_print", "date_print_both", "nanos", "nanos_both", "nanos_time", "nanos_time_both"}, nil},
	// The target rejects malformed booleans of a field, and objects below a name with a dot. The sum of the values of long and
	// n.long depends on the order in which doubles are added.
	{"rfs/rebuild/testdata/8.19.21-rebuild", []string{"long", "n.long"}, []string{"types", "types-series", "objects-logsdb"}},
	// The cluster itself finds documents of other moments where nested documents have none.
	{"rfs/rebuild/testdata/9.5.3-rebuild", []string{"long", "n.long", "@timestamp"}, []string{"types", "types-series", "objects-logsdb"}},
}

// TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource migrates snapshots whose sources are rebuilt, and asks the target what
// the source was asked (testing/answers): for every field the documents that have it, its values, and those between two of
// them. By default each snapshot is sent to one target; RFSD_SOURCES=all sends all to all.
func TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource(t *testing.T) {
	for i, s := range rebuiltSnapshots {
		for j, version := range targets {
			if os.Getenv("RFSD_SOURCES") != "all" && i%len(targets) != j {
				continue
			}
			t.Run(filepath.Base(s.path)+" into "+version, func(t *testing.T) {
				repository := filepath.Join(Root(), s.path)
				source, err := answers.Load(repository + ".answers.json")
				must(t, err)
				source = slices.DeleteFunc(source, func(a answers.Search) bool {
					return slices.Contains(s.indices, a.Index) || slices.ContainsFunc(s.fields, func(f string) bool { return strings.Contains(string(a.Body), `"`+f+`"`) })
				})
				var indices []string
				for _, a := range source {
					if !slices.Contains(indices, a.Index) {
						indices = append(indices, a.Index)
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
				for _, fault := range answers.Differ(source, target) {
					t.Error(fault)
				}
				hits, found := 0, 0
				for _, a := range source {
					if hits += len(a.IDs); len(a.IDs) > 0 {
						found++
					}
				}
				t.Logf("%d searches of %d indices, %d of them with hits: %d", len(source), len(indices), found, hits)
			})
		}
	}
}
