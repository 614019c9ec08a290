package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestSwitchedOffSourcesAreFound migrates indices whose mappings switch sources off or filter them, and searches the target
// for what was sent to the source (testing/snapgen, recipes_switched_off.go).
func TestSwitchedOffSourcesAreFound(t *testing.T) {
	repository, err := filepath.Abs(filepath.Join("..", "..", "rfs", "source", "rebuild", "testdata", "7.10.2-switched-off"))
	must(t, err)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	for _, c := range []struct {
		name                              string
		args                              []string
		code                              int
		indexed, failed, reduced, rebuilt int
	}{
		{"not asked for", nil, 6, 6, 16, 6, 0},
		{"asked for", []string{"--rebuild-sources", "--session-name", "again", "--existing-documents", "overwrite"}, 6, 22, 0, 22, 20},
		{"and accepted", []string{"--rebuild-sources", "--session-name", "more", "--existing-documents", "overwrite", "--accept-reduced-sources"}, 0, 22, 0, 22, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			res := RunIn(t, dir, nil, "rfsd", append(targetArgs(n.URL, repository, "--failed-documents", filepath.Join(dir, "failed")), c.args...)...)
			if res.Code != c.code {
				t.Fatalf("exit %d, want %d\n%s", res.Code, c.code, res.Stderr)
			}
			var sum struct {
				Totals struct{ Indexed, Failed, Reduced, Rebuilt int }
			}
			must(t, outputtest.Decode(res.Stdout, &sum))
			if got := sum.Totals; got.Indexed != c.indexed || got.Failed != c.failed || got.Reduced != c.reduced || got.Rebuilt != c.rebuilt {
				t.Errorf("%+v, want %+v", got, c)
			}
		})
	}
	for _, q := range []struct {
		index, query string
		want         []string
	}{
		{"types", `{"term":{"keyword":"a"}}`, []string{"1"}},
		{"types", `{"term":{"text_raw.raw":"alpha"}}`, []string{"1"}},
		{"types", `{"match":{"text_stored":"quick"}}`, []string{"0", "1", "3"}},
		{"types", `{"range":{"date":{"gte":"2023-11-14T22:13:20.123Z","lte":"2023-11-14T22:13:20.123Z"}}}`, []string{"0", "1", "3"}},
		{"types", `{"term":{"date_nanos":"2023-11-14T22:13:20.123456789Z"}}`, []string{"0", "1", "3"}},
		{"types", `{"term":{"integer_range":299}}`, []string{"1", "2"}},
		{"types", `{"term":{"ip_stored":"10.0.0.1"}}`, []string{"1"}},
		{"types", `{"exists":{"field":"keyword_neither"}}`, nil},
		{"nested", `{"nested":{"path":"n","query":{"bool":{"must":[{"term":{"n.k":"a"}},{"range":{"n.v":{"gte":3}}}]}}}}`, []string{"0"}},
		{"nested", `{"nested":{"path":"n","query":{"bool":{"must":[{"term":{"n.k":"b"}},{"term":{"n.v":3}}]}}}}`, nil},
		{"filtered", `{"match":{"body":"text"}}`, []string{"0"}},
		{"filtered", `{"term":{"meta.secret":"s2"}}`, []string{"1"}},
		{"filtered", `{"term":{"gone.b.c":"deep"}}`, []string{"0"}},
		{"objects", `{"term":{"to":"d"}}`, []string{"3"}},
	} {
		call(t, n, "POST", "/"+q.index+"/_refresh", nil)
		var answer struct {
			Hits struct {
				Hits []struct {
					ID string `json:"_id"`
				}
			}
		}
		must(t, n.JSON(t.Context(), "POST", "/"+q.index+"/_search?size=100", json.RawMessage(`{"query":`+q.query+`}`), &answer))
		var got []string
		for _, h := range answer.Hits.Hits {
			got = append(got, h.ID)
		}
		if slices.Sort(got); !slices.Equal(got, q.want) {
			t.Errorf("%s: %s finds %v, want %v", q.index, q.query, got, q.want)
		}
	}
}
