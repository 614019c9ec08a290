// Package words_test counts phrases that make comments hard to read, by package of the product. The counts may only decrease.
// Messages, the README and the pages in docs must have none.
package words_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root, ceilings = "../..", "counts.txt"

// phrases are patterns with their replacements. CONTRIBUTING describes the style of comments.
var phrases = []struct{ pattern, instead string }{
	{`\b(is|are) (what|where|when|how|who|which)\b`, "a noun: \"is the interval between …\""},
	{`\bwhat (is|are|has|was|were|have)\b`, "name the thing"},
	{`\b(those|that) of\b`, "repeat the noun"},
	{`\bbegins?\b|\bbegan\b|\bbegun\b`, "start"},
	{`\bg(ive|ives|iven|ave|iving) (it |them )?back\b`, "return, release"},
	{`\bsays?\b`, "states, reports"},
	{`\b(is|are) without an?\b`, "has no"},
	{`\bone that\b|\bones that\b`, "repeat the noun"},
	{`\bnot (known|there)\b`, "unknown, missing, does not exist"},
	{`\bthere (is|are) (no|none)\b`, "the subject has no …"},
	{`\b(is|are) (no|none) `, "is not a"},
	{`\bbeside\b`, "next to, in addition to"},
	{`\bstands?\b`, "is, appears"},
	{`\b(whatever|whoever|whichever)\b`, "regardless of"},
	{`\bat once\b`, "immediately, at the same time"},
	{`\bunder way\b`, "in flight, running"},
	{`\btells?\b|\btold\b`, "reports, passes"},
	{`\bof which\b`, "whose"},
	{`\btakes? part\b`, "participates"},
	{`\bone after the other\b`, "in sequence"},
	{`\bbut for\b`, "except for"},
	{`\bin work\b`, "in progress"},
	{`\bso many\b`, "the count"},
	{`\bfor (ever|good)\b`, "permanently"},
	{`\bnobody\b|\bgoes on\b|\bgo on\b|\bas a rule\b`, "no process; continues; usually"},
}

// all matches every phrase.
var all = func() *regexp.Regexp {
	var parts []string
	for _, p := range phrases {
		parts = append(parts, p.pattern)
	}
	return regexp.MustCompile(`(?i)` + strings.Join(parts, "|"))
}()

// product calls visit with each Go file of the product, except for tests, and its path relative to the root.
func product(t *testing.T, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	for _, top := range []string{"cmd", "daemon", "gossip", "rfs", "store"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			visit(filepath.ToSlash(rel), set, file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMessages_HaveNoListedPhrase checks help, errors and logs. Names of fields and scripts of the store are not sentences.
func TestMessages_HaveNoListedPhrase(t *testing.T) {
	product(t, func(path string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, " ") || strings.HasPrefix(lit.Value, "`json:") || strings.HasSuffix(path, "oscms/scripts.go") {
				return true
			}
			for _, m := range all.FindAllString(lit.Value, -1) {
				t.Errorf("%s:%d: %q in %.200s", path, set.Position(lit.Pos()).Line, m, lit.Value)
			}
			return true
		})
	})
}

func TestPages_HaveNoListedPhrase(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in docs: %v", len(pages), err)
	}
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			for _, m := range all.FindAllString(line, -1) {
				t.Errorf("%s:%d: %q", filepath.Base(path), n, m)
			}
		}
	}
}

func TestComments_PhrasesOnlyBecomeFewer(t *testing.T) {
	found, places := map[string]int{}, map[string][]string{}
	product(t, func(path string, set *token.FileSet, file *ast.File) {
		dir := path[:strings.LastIndex(path, "/")]
		for _, group := range file.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					for _, m := range all.FindAllString(line, -1) {
						found[dir]++
						places[dir] = append(places[dir], fmt.Sprintf("%s:%d: %s", path, set.Position(c.Pos()).Line+i, m))
					}
				}
			}
		}
	})
	if os.Getenv("RFSD_UPDATE") != "" {
		var b strings.Builder
		total := 0
		for _, dir := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&b, "%d %s\n", found[dir], dir)
			total += found[dir]
		}
		fmt.Fprintf(&b, "%d all\n", total)
		if err := os.WriteFile(ceilings, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(ceilings)
	if err != nil {
		t.Fatal(err)
	}
	limit := map[string]int{}
	for line := range strings.Lines(string(b)) {
		count, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if limit[dir], err = strconv.Atoi(count); err != nil {
			t.Fatal(err)
		}
	}
	for dir, n := range found {
		if n > limit[dir] {
			t.Errorf("%s has %d listed phrases in its comments; the limit is %d (RFSD_UPDATE=1 writes the counts). All of them:\n%s", dir, n, limit[dir],
				strings.Join(places[dir], "\n"))
		}
	}
}
