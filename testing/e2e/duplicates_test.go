package e2e

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/failedtest"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// family is the repository of an old version that holds duplicate keys, parents and children.
func family(t *testing.T, version string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "rfs", "migration", "worker", "testdata", version+"-family"))
	must(t, err)
	return path
}

// TestDuplicateKeysArriveWhenTheLastIsKept: versions before 6 accepted a key twice in one object, OpenSearch refuses it.
func TestDuplicateKeysArriveWhenTheLastIsKept(t *testing.T) {
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			for _, c := range []struct {
				name            string
				args            []string
				code            int
				indexed, failed int
			}{
				{"sent as they are", nil, 6, 1, 6},
				{"the last is kept", []string{"--duplicate-keys", "keep-last", "--session-name", "again", "--existing-documents", "overwrite"}, 0, 7, 0},
			} {
				t.Run(c.name, func(t *testing.T) {
					dir := t.TempDir()
					args := targetArgs(n.URL, family(t, "5.6.16"), "--index-allowlist", "duplicates", "--failed-documents", filepath.Join(dir, "failed"))
					res := RunIn(t, dir, nil, "rfsd", append(args, c.args...)...)
					if res.Code != c.code {
						t.Fatalf("exit %d, want %d\n%s", res.Code, c.code, res.Stderr)
					}
					var sum struct {
						Totals struct {
							Indexed, Failed int
							Duplicates      int `json:"duplicate_keys"`
						}
					}
					must(t, outputtest.Decode(res.Stdout, &sum))
					kept := 0
					if c.args != nil {
						kept = 6
					}
					if sum.Totals.Indexed != c.indexed || sum.Totals.Failed != c.failed || sum.Totals.Duplicates != kept {
						t.Errorf("%+v", sum.Totals)
					}
					for f, err := range failedtest.Read(filepath.Join(dir, "failed")) {
						must(t, err)
						if !strings.Contains(f.Detail, "Duplicate field") && !strings.Contains(f.Detail, "Duplicate Object property") {
							t.Errorf("%s was refused for another reason: %s", f.ID, f.Detail)
						}
					}
				})
			}
			want := map[string]string{
				"none": `{"n":1,"raw":{"a":1,"b":[{"a":2},{"a":3}]}}`, "two": `{ "raw":{},"n":2}`, "three": `{"n":3}`,
				"within": `{"raw":{"b":"\u00e9","a":2},"n":4}`, "list": `{"raw":{"l":[{"a":[1,1]},{"a":5}]},"n":5}`,
				"escaped": `{"n":6,"raw":{"a\u002fb":2}}`, "nested": `{"n":7,"raw":{"c":1e3}}`,
			}
			got := map[string]string{}
			for k, source := range landed(t, n) {
				got[k.ID] = string(source)
			}
			if !maps.Equal(got, want) {
				t.Errorf("landed %v, want %v", got, want)
			}
		})
	}
}
