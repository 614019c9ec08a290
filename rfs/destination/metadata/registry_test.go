package metadata

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

var namedInCode = regexp.MustCompile(`(?:\.note|\.lose|dropping|dropRoot)\("([a-z-]+)"`)

func TestEveryRuleThatIsReportedIsListedAndEveryListedOneExists(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedInCode.FindAllStringSubmatch(string(b), -1) {
			used[m[1]] = true
		}
	}
	for _, r := range fieldRules {
		used[r.name] = true
	}
	for _, r := range elasticTypes {
		used[r.rule] = true
	}
	for _, r := range rootRules {
		used[r] = true
	}
	delete(used, "")
	used["target"] = true
	listed := map[string]bool{}
	for _, r := range Rules() {
		if listed[r.Name] || r.Does == "" {
			t.Errorf("rule %s is listed twice, or states nothing", r.Name)
		}
		listed[r.Name] = true
		if !used[r.Name] {
			t.Errorf("rule %s is nowhere", r.Name)
		}
	}
	for name := range used {
		if !listed[name] {
			t.Errorf("rule %s is not listed", name)
		}
	}
}

// TestTheDocumentationListsTheRules writes docs/RULES.md anew with RFSD_WRITE_DOCS=1.
func TestTheDocumentationListsTheRules(t *testing.T) {
	const file = "../../../docs/RULES.md"
	want := rulesPage()
	if os.Getenv("RFSD_WRITE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("docs/RULES.md is not up to date: RFSD_WRITE_DOCS=1 go test -run Documentation ./rfs/destination/metadata")
	}
}

func rulesPage() string {
	var b strings.Builder
	b.WriteString(`# Conversion rules

How settings, mappings, aliases and templates of the source are converted for the target. Each change is reported under
the rule's name before anything is written (` + "`rfsd plan`" + `) and when it is made. Changes after which searches may find
less, or something else, are warnings ("may lose"). Internals of the old index (uuid, versions, dates, blocks,
allocation) are dropped without a report.

` + "```console" + `
$ rfsd plan --repo-uri testing/fixtures/1.7.6-basic --snapshot-name snap1 --target-version 3.8 --only changes
…
  docs: tag: string (index: not_analyzed) is keyword (string-to-text)
  docs: title: string (index: analyzed) is text (string-to-text)
  docs: ts: dateOptionalTime is date_optional_time (date-format)
  docs: ts: epoch_millis is added: Elasticsearch 1 took milliseconds besides any format (date-format)
` + "```" + `

` + "`--without-rule NAME`" + ` disables a rule: the original is offered to the target, and an index that the target rejects for
it fails with the target's message.

This page is generated from the rules in rfs/destination/metadata.

| Rule | What it does | May lose |
|---|---|---|
`)
	row := func(r Rule) {
		loses := ""
		if r.Loses {
			loses = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, strings.ReplaceAll(r.Does, "|", `\|`), loses)
	}
	for _, r := range registry {
		if !r.Report {
			row(r)
		}
	}
	b.WriteString("\nThese cannot be disabled; they report unavoidable or requested changes:\n\n| Name | What it reports | May lose |\n|---|---|---|\n")
	for _, r := range registry {
		if r.Report {
			row(r)
		}
	}
	return b.String()
}

func TestARuleThatIsSwitchedOffLeavesThingsAsTheyAre(t *testing.T) {
	for _, c := range []struct{ rule, in string }{
		{"multi-field", `{"type":"multi_field","fields":{"f":{"type":"text"}}}`},
		{"string-to-text", `{"type":"string","analyzer":"a"}`},
		{"flattened", `{"type":"flattened"}`},
		{"version-type", `{"type":"version"}`},
		{"histogram", `{"type":"histogram"}`},
		{"semantic-text", `{"type":"semantic_text"}`},
		{"sparse-vector", `{"type":"sparse_vector"}`},
		{"elastic-type", `{"type":"shape"}`},
		{"include-in-all", `{"type":"text","include_in_all":true}`},
		{"norms", `{"type":"text","norms":{"enabled":false}}`},
		{"index-options", `{"type":"long","index_options":"docs"}`},
		{"old-option", `{"type":"long","precision_step":"4"}`},
		{"field-boost", `{"type":"text","boost":"2"}`},
		{"geo-shape", `{"type":"geo_shape","tree":"quadtree"}`},
		{"time-series", `{"type":"long","time_series_metric":"gauge"}`},
		{"script-field", `{"type":"long","script":"emit(1)"}`},
		{"boolean-option", `{"type":"long","store":"yes"}`},
		{"legacy-similarity", `{"type":"text","similarity":"classic"}`},
		{"date-format", `{"type":"date","format":"dateOptionalTime"}`},
		{"dynamic-runtime", `{"type":"object","dynamic":"runtime"}`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"t", json.RawMessage(`{"properties":{"f":` + c.in + `}}`)}}}}
			on, _, err := Convert(os219, w)
			if err != nil {
				t.Fatal(err)
			}
			w.Overrides.Without = []string{c.rule}
			off, changes, err := Convert(os219, w)
			if err != nil {
				t.Fatal(err)
			}
			field := tree(t, off)["mappings"].(map[string]any)["properties"].(map[string]any)["f"]
			if want := tree(t, []byte(c.in)); fmt.Sprint(field) != fmt.Sprint(want) || len(changes) > 0 {
				t.Errorf("off: %v, changes %+v", field, changes)
			}
			if string(on) == string(off) {
				t.Errorf("on: %s", on)
			}
		})
	}
	if err := CheckRuleNames([]string{"norms", "nonsense"}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("nonsense: %v", err)
	}
	if err := CheckRuleNames(RuleNames()); err != nil || slices.Contains(RuleNames(), "type-union") {
		t.Errorf("%v", err)
	}
}
