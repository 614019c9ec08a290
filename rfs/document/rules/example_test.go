package rules

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestEveryExampleOfTheDocumentationIsTrue reads docs/RULES-FILE.md: after a block of rules,
// names with what they become, or pairs of a text before and after.
func TestEveryExampleOfTheDocumentationIsTrue(t *testing.T) {
	b, err := os.ReadFile("../../../docs/RULES-FILE.md")
	if err != nil {
		t.Fatal(err)
	}
	var (
		block   = regexp.MustCompile("(?s)```toml\n(.*?)```(.*?)(?:```toml|\\z)")
		becomes = regexp.MustCompile("\\* `(\\S+)` becomes `(\\S+)`")
		pair    = regexp.MustCompile("(?s)`(\\S+)` before:\n\n```json\n(.*?)\n```\n\n(?:(is left out)\\.|after(?:, in `(\\S+)`)?:\n\n```json\n(.*?)\n```)")
	)
	text, examples := string(b), 0
	for at := block.FindStringSubmatchIndex(text); at != nil; at = block.FindStringSubmatchIndex(text) {
		toml, below := text[at[2]:at[3]], text[at[4]:at[5]]
		text = text[at[5]:]
		set, err := Parse("example", []byte(toml))
		if err != nil {
			t.Errorf("%v in\n%s", err, toml)
			continue
		}
		for _, m := range becomes.FindAllStringSubmatch(below, -1) {
			if examples++; set.IndexName(m[1]) != m[2] {
				t.Errorf("%s becomes %s, not %s", m[1], set.IndexName(m[1]), m[2])
			}
		}
		for _, m := range pair.FindAllStringSubmatch(below, -1) {
			examples++
			if strings.Contains(toml, "[[document]]") {
				documentExample(t, set, m)
				continue
			}
			metadataExample(t, set, strings.Contains(toml, "[[template]]"), m)
		}
	}
	if examples != 9 {
		t.Errorf("%d examples were read", examples)
	}
}

func documentExample(t *testing.T, set *Set, m []string) {
	d := doc.Document{Index: []byte(m[1]), Source: []byte(m[2])}
	keep, err := set.Documents(m[1]).Edit(&d, 0)
	if err != nil || keep == (m[3] != "") {
		t.Errorf("%s: kept %v, %v", m[2], keep, err)
	}
	if keep && string(d.Source) != m[5] || m[4] != "" && string(d.Index) != m[4] {
		t.Errorf("%s: %s in %s", m[2], d.Source, d.Index)
	}
}

func metadataExample(t *testing.T, set *Set, template bool, m []string) {
	var body, want map[string]any
	if err := json.Unmarshal([]byte(m[2]), &body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(m[5]), &want); err != nil {
		t.Fatal(err)
	}
	change := set.EditIndex
	if template {
		change = set.EditTemplate
	}
	if done := change(m[1], body); len(done) == 0 || !reflect.DeepEqual(body, want) {
		t.Errorf("%v: %v", done, body)
	}
}
