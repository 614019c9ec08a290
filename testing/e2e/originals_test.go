package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestFilteredSourcesStaySearchable migrates an index whose mapping leaves a field out of _source. The snapshot still holds
// the originals for recoveries: sent to a target that leaves out the same field, they make it searchable as it was at the
// source, and _source stays what it was there. A target index that leaves out nothing gets what the source stored.
func TestFilteredSourcesStaySearchable(t *testing.T) {
	repo, err := filepath.Abs(filepath.Join("..", "fixtures", "os3.8.0-source-excludes"))
	must(t, err)
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	for _, version := range targets {
		for _, c := range []struct {
			name    string
			prepare string // mapping of an index that is there before; "": rfsd creates it
			hits    string
			code    int    // exit code: 6 when documents are reduced
			args    string // a further option
		}{
			{"created by rfsd", "", "35", 0, ""}, // as the source answered
			{"exists and leaves out nothing", `{"mappings":{"properties":{"title":{"type":"text"},"body":{"type":"text"},"n":{"type":"integer"}}}}`, "0", 6, ""},
			{"exists and leaves out nothing, accepted", `{"mappings":{"properties":{"title":{"type":"text"},"body":{"type":"text"},"n":{"type":"integer"}}}}`, "0", 0, "--accept-reduced-sources"},
		} {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				n := cluster.OpenSearch(t, version)
				wipe(t, n)
				if c.prepare != "" {
					if _, err := n.Send(t.Context(), "PUT", "/articles", "application/json", []byte(c.prepare)); err != nil {
						t.Fatal(err)
					}
				}
				args := targetArgs(n.URL, repo)
				if c.args != "" {
					args = append(args, c.args)
				}
				if res := RunIn(t, t.TempDir(), nil, "rfsd", args...); res.Code != c.code {
					t.Fatalf("exit %d, want %d\n%s", res.Code, c.code, res.Stderr)
				}
				if faults := truth.Compare(want, landed(t, n)).Faults(); faults != "" {
					t.Error(faults)
				}
				got := call(t, n, "POST", "/articles/_count", map[string]any{"query": map[string]any{"match": map[string]any{"body": "lorem"}}})
				if fmt.Sprint(got["count"]) != c.hits {
					t.Errorf("%v hits for body:lorem, want %v", got["count"], c.hits)
				}
			})
		}
	}
}
