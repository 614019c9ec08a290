package e2e

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// userRules rename indices, leave documents out, send some elsewhere and take a field away.
const userRules = `
[[rename-index]]
match = "*"
to = "moved-$1"

[[index]]
match = "orders"
set = [{ path = "/settings/number_of_replicas", value = "0" }, { path = "/mappings/_meta", value = { by = "rules" } }]

[[document]]
match = "weblogs"
where = { field = "status", in = [200] }
leave-out = true

[[document]]
match = "orders"
where = { field = "status", equals = "open" }
index = "moved-open"

[[document]]
match = "orders"
drop = ["customer.email"]
rename = [{ from = "customer.address.zip", to = "customer.address.postcode" }]
`

// ruled is what the rules make of the demo's documents, written a second time without a parser.
func ruled(docs truth.Docs) (want truth.Docs, filtered int) {
	want = truth.Docs{}
	email := regexp.MustCompile(`"email":"[^"]*",`)
	for k, source := range docs {
		index := "moved-" + k.Index
		switch {
		case k.Index == "weblogs" && bytes.Contains(source, []byte(`"status":200`)):
			filtered++
			continue
		case k.Index == "orders":
			if bytes.Contains(source, []byte(`"status":"open"`)) {
				index = "moved-open"
			}
			source = bytes.ReplaceAll(email.ReplaceAll(source, nil), []byte(`"zip":`), []byte(`"postcode":`))
		}
		k.Index = index
		want[k] = source
	}
	return want, filtered
}

func writeRules(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func checkRuled(t *testing.T, res Result, got truth.Docs) {
	t.Helper()
	docs, err := truth.Load(false, demo(t)+".ndjson.gz")
	must(t, err)
	want, filtered := ruled(docs)
	if filtered == 0 || filtered == len(docs) {
		t.Fatalf("%d documents are to be left out", filtered)
	}
	if res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	if faults := truth.Compare(want, got).Faults(); faults != "" {
		t.Error(faults)
	}
	n := 0
	for _, x := range parseSummary(t, res).Indices {
		n += x.Filtered
	}
	if n != filtered {
		t.Errorf("%d documents were filtered, want %d", n, filtered)
	}
}

func TestRulesChangeWhatTheySayAndNotAByteMore(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	args := exportArgs(demo(t), out, "--rules", writeRules(t, userRules))
	res := RunIn(t, dir, nil, "rfsd", args...)
	got, err := truth.LoadExport(out)
	must(t, err)
	checkRuled(t, res, got)

	other := exportArgs(demo(t), out, "--rules", writeRules(t, userRules+"\n# changed\n"))
	if res := RunIn(t, dir, nil, "rfsd", other...); res.Code != 1 || !strings.Contains(res.Stderr, "rules") {
		t.Errorf("other rules in the same session: exit %d: %s", res.Code, res.Stderr)
	}
}

func TestBadRulesAreRefusedBeforeAnythingIsDone(t *testing.T) {
	dir := t.TempDir()
	name := writeRules(t, "[[document]]\nmatch = \"*\"\ndorp = [\"a\"]\n")
	res := RunIn(t, dir, nil, "rfsd", exportArgs(demo(t), filepath.Join(dir, "out"), "--rules", name)...)
	if res.Code != 1 || !strings.Contains(res.Stderr, name+":3: key document.dorp is unknown") || exists(filepath.Join(dir, "out")) {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
}

// TestRulesAndTemplatesReachARealTarget migrates with rules, and the templates of an old
// cluster with all that can be asked for.
func TestRulesAndTemplatesReachARealTarget(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, demo(t), "--session-name", "rules", "--rules", writeRules(t, userRules))...)
	got := landed(t, n)
	for k := range got {
		if !strings.HasPrefix(k.Index, "moved-") {
			delete(got, k)
		}
	}
	checkRuled(t, res, got)
	var made map[string]struct {
		Settings struct {
			Index struct {
				Replicas string `json:"number_of_replicas"`
			}
		}
		Mappings struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	must(t, n.JSON(t.Context(), "GET", "/moved-orders", nil, &made))
	if x := made["moved-orders"]; x.Settings.Index.Replicas != "0" || x.Mappings.Meta["by"] != "rules" {
		t.Errorf("%+v", x)
	}

	wipe(t, n)
	repo := filepath.Join(Root(), "testing", "fixtures", "1.7.6-templates")
	for range 2 { // the second run finds everything there
		res = RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repo, "--session-name", "templates", "--template-allowlist", "legacy1", "--include", "pipelines,scripts,ilm")...)
		if res.Code != 0 {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
	}
	var names map[string]struct{ Order int }
	must(t, n.JSON(t.Context(), "GET", "/_template/legacy*?filter_path="+url.QueryEscape("*.order"), nil, &names))
	var list []string
	for name := range names {
		list = append(list, name)
	}
	if !slices.Equal(list, []string{"legacy1"}) || names["legacy1"].Order != 5 {
		t.Errorf("templates %v", names)
	}
	call(t, n, "DELETE", "/_template/legacy1", nil)
}
