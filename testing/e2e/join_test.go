package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestParentsAndChildrenAreFound migrates relations of old versions (_parent) into a join field. The hits are those that
// the source gave when the snapshot was made: testing/snapgen, recipes_old.go. Each source goes into one target; RFSD_SOURCES=all:
// into each.
func TestParentsAndChildrenAreFound(t *testing.T) {
	for i, source := range []string{"2.4.6", "5.6.16"} {
		for j, version := range targets {
			if os.Getenv("RFSD_SOURCES") == "all" || i%len(targets) == j {
				t.Run(source+" into "+version, func(t *testing.T) { parentsAndChildren(t, source, version) })
			}
		}
	}
}

func parentsAndChildren(t *testing.T, source, version string) {
	n := cluster.OpenSearch(t, version)
	wipe(t, n)
	dir := t.TempDir()
	args := targetArgs(n.URL, family(t, source), "--index-allowlist", "family", "--failed-documents", filepath.Join(dir, "failed"), "--parent-join", "relation")
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
		t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
	}
	call(t, n, "POST", "/family/_refresh", nil)
	for query, want := range map[string][]string{
		`{"match_all":{}}`: {
			"company#0", "company#1", "company#2", "company#3", "company#4", "company#5", "note#0", "note#1", "person#0", "person#1", "person#10", "person#11",
			"person#2", "person#3", "person#4", "person#5", "person#6", "person#7", "person#8", "person#9", "pet#0", "pet#1", "pet#2", "pet#3",
		},
		`{"has_child":{"type":"person","query":{"range":{"n":{"gte":106}}}}}`:                                              {"company#3", "company#4", "company#5"},
		`{"has_child":{"type":"person","query":{"has_child":{"type":"pet","query":{"match_all":{}}}}}}`:                    {"company#0", "company#1", "company#3", "company#4"},
		`{"has_parent":{"parent_type":"company","query":{"range":{"n":{"lte":1}}}}}`:                                       {"person#0", "person#1", "person#2", "person#3"},
		`{"has_parent":{"parent_type":"person","query":{"range":{"n":{"gte":106}}}}}`:                                      {"pet#2", "pet#3"},
		`{"parent_id":{"type":"person","id":"company#2"}}`:                                                                 {"person#4", "person#5"},
		`{"bool":{"must":[{"term":{"relation":"pet"}},{"has_parent":{"parent_type":"person","query":{"match_all":{}}}}]}}`: {"pet#0", "pet#1", "pet#2", "pet#3"},
	} {
		var answer struct {
			Hits struct {
				Hits []struct {
					ID string `json:"_id"`
				}
			}
		}
		must(t, n.JSON(t.Context(), "POST", "/family/_search?size=100", json.RawMessage(`{"query":`+query+`}`), &answer))
		var got []string
		for _, h := range answer.Hits.Hits {
			got = append(got, h.ID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", query, got, want)
		}
	}
	verify := []string{"verify", "--repo-uri", family(t, source), "--snapshot-name", "snap1", "--target-host", n.URL, "--index-allowlist", "family", "--parent-join", "relation"}
	if res := RunIn(t, dir, nil, "rfsd", verify...); res.Code != 0 {
		t.Errorf("verify: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}
