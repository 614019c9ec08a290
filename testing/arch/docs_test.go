package arch_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// page is a Markdown file of the project; name is relative to the root, with slashes.
type page struct{ name, text string }

// tree has the names that documents may refer to.
type tree struct {
	files map[string]bool     // files and folders, relative to the root
	tests map[string][]string // folders of Test, Fuzz and Benchmark functions by name
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)

// ignored returns the patterns of .gitignore at the root of a checkout, which match the output of programs and tests.
func ignored(t *testing.T, root string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// ignores reports whether one of the patterns matches: /NAME or /NAME/ at the top, any other pattern a name in any folder.
func ignores(patterns []string, relative string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if top, ok := strings.CutPrefix(pattern, "/"); ok {
			return strings.TrimSuffix(top, "/") == relative
		}
		ok, err := path.Match(pattern, path.Base(relative))
		return ok && err == nil
	})
}

// readTree returns the documents and the files of a checkout, without .git and files that git ignores.
func readTree(t *testing.T, root string) ([]page, tree) {
	t.Helper()
	var pages []page
	all := tree{files: map[string]bool{}, tests: map[string][]string{}}
	patterns := append(ignored(t, root), "/.git")
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, root), string(filepath.Separator)))
		if ignores(patterns, relative) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		all.files[relative] = true
		document := strings.HasSuffix(name, ".md")
		if entry.IsDir() || !document && !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if document {
			pages = append(pages, page{relative, string(b)})
		}
		for _, m := range function.FindAllStringSubmatch(string(b), -1) {
			all.tests[m[1]] = append(all.tests[m[1]], path.Dir(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, all
}

func TestDocumentsReferToWhatExists(t *testing.T) {
	pages, all := readTree(t, root)
	if len(pages) < 20 {
		t.Fatalf("only %d documents found", len(pages))
	}
	for _, p := range pages {
		for _, bad := range slices.Concat(brokenLinks(p, pages, all), missingPaths(p, all), missingTests(p, all), testsElsewhere(p, all)) {
			t.Errorf("%s: %s", p.name, bad)
		}
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	code     = regexp.MustCompile("`[^`\n]+`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	nameTest = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w+)(…?)`)
	// named is a path of the project: its first part is a folder of the root, or a name with the extension of a source or a page.
	named = regexp.MustCompile(`(?:[\w.*-]+/)+[\w.*{},-]*|[\w*-]+\.(?:go|md)\b`)
	// placeholder is a part in capitals that is not a page, such as NAME.
	placeholder = regexp.MustCompile(`(?:^|/)[A-Z]{3,}(?:$|/|\.(?:[^m]|m[^d]))`)
)

// brokenLinks reports relative links to files or headings that do not exist.
func brokenLinks(p page, pages []page, all tree) []string {
	var bad []string
	text := code.ReplaceAllString(fence.ReplaceAllString(p.text, ""), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		u, err := url.Parse(m[1])
		if err != nil || u.Scheme != "" {
			continue
		}
		to := p.name
		if u.Path != "" {
			to = path.Join(path.Dir(p.name), u.Path)
		}
		if !all.files[to] {
			bad = append(bad, "link to "+m[1]+", which does not exist")
			continue
		}
		i := slices.IndexFunc(pages, func(other page) bool { return other.name == to })
		if u.Fragment != "" && i >= 0 && !slices.Contains(anchors(pages[i].text), u.Fragment) {
			bad = append(bad, "link to "+m[1]+", a heading that does not exist")
		}
	}
	return bad
}

// anchors returns the fragments by which the headings of a page are linked.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// missingPaths reports files and folders of the project that the page names but that do not exist. Paths are relative to the root
// or to the page's folder, and belong to the project if their first part exists.
func missingPaths(p page, all tree) []string {
	var bad []string
	dir := path.Dir(p.name)
	for _, line := range strings.Split(p.text, "\n") {
		for _, at := range named.FindAllStringIndex(line, -1) {
			if at[0] > 0 && strings.ContainsRune(`/$:@~%…`, []rune(line[:at[0]])[len([]rune(line[:at[0]]))-1]) {
				continue // part of an absolute path, a URL or a variable
			}
			name := strings.TrimPrefix(strings.TrimRight(line[at[0]:at[1]], ".,"), "./")
			name = strings.TrimSuffix(strings.TrimSuffix(name, "/..."), "/")
			first, _, nested := strings.Cut(name, "/")
			switch {
			case strings.ContainsAny(name, "{}") || strings.HasPrefix(name, "..") || placeholder.MatchString(name):
			case !nested && path.Ext(name) == "", name == "DESIGN.md":
			case nested && !all.files[first] && !all.files[path.Join(dir, first)]:
			case exists(all, name) || exists(all, path.Join(dir, name)):
			case !nested && exists(all, path.Join("docs", name)):
			default:
				bad = append(bad, fmt.Sprintf("names %s, which does not exist", name))
			}
		}
	}
	return bad
}

func exists(all tree, pattern string) bool {
	if !strings.Contains(pattern, "*") {
		return all.files[pattern]
	}
	for name := range all.files {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// missingTests reports names of tests that no test file has; a name that ends with … is a prefix.
func missingTests(p page, all tree) []string {
	var bad []string
	for _, m := range nameTest.FindAllStringSubmatch(p.text, -1) {
		found := all.tests[m[1]] != nil
		for name := range all.tests {
			found = found || m[2] != "" && strings.HasPrefix(name, m[1])
		}
		if !found {
			bad = append(bad, "names the test "+m[0]+", which does not exist")
		}
	}
	return bad
}

var inPackage = regexp.MustCompile("(?:\\b([a-z][a-z0-9]*) )?`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")

// testsElsewhere reports tests in tables of docs/SECURITY.md that are not in the package named before them, or before an earlier test of
// the row.
func testsElsewhere(p page, all tree) []string {
	var bad []string
	if p.name != "docs/SECURITY.md" {
		return nil
	}
	for line := range strings.Lines(p.text) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		in := ""
		for _, m := range inPackage.FindAllStringSubmatch(line, -1) {
			in = cmp.Or(m[1], in)
			folders := all.tests[m[2]]
			if folders != nil && !slices.ContainsFunc(folders, func(folder string) bool { return path.Base(folder) == in }) {
				bad = append(bad, fmt.Sprintf("names the test %s of %s, which is in %s", m[2], in, strings.Join(folders, ", ")))
			}
		}
	}
	return bad
}

// TestEachAssetNamesItsTest checks that the table of assets names, for each, the permitted access, its protection and a test.
func TestEachAssetNamesItsTest(t *testing.T) {
	pages, _ := readTree(t, root)
	rows := 0
	for _, p := range pages {
		if p.name != "docs/SECURITY.md" {
			continue
		}
		_, table, _ := strings.Cut(p.text, "| asset | allowed | protection | test |")
		for line := range strings.Lines(table) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			rows++
			if len(cells) != 4 || slices.Contains(cells, "") || !nameTest.MatchString(cells[len(cells)-1]) {
				t.Errorf("%d cells, and the last names no test: %.80s", len(cells), line)
			}
		}
	}
	if rows < 25 {
		t.Errorf("%d assets only", rows)
	}
}

var recordKind = regexp.MustCompile(`(?m)^\s*(?:const )?(?:[kK]ind[A-Z]\w*|\w*[rR]ecordKind|summaryKind|permitsKind|stateKind|incarnationID|nodesID) += "([a-z]+)"`)

// TestEachKindOfRecordIsInTheTable checks that docs/SECURITY.md states, for each kind of record, the power that it gives a writer of
// the control index, and names a test.
func TestEachKindOfRecordIsInTheTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| records of the kind |")
	table, _, _ = strings.Cut(table, "\n\n")
	first := ""
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		if first += cells[0]; len(cells) != 4 || slices.Contains(cells, "") || !nameTest.MatchString(cells[3]) {
			t.Errorf("%d cells, and the last names no test: %.80s", len(cells), line)
		}
	}
	found := 0
	for _, folder := range []string{"rfs/coordination", "rfs/stream", "rfs/operation/verify", "daemon"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			for _, m := range recordKind.FindAllSubmatch(b, -1) {
				hint := strings.Contains(name, "/daemon/") && bytes.Contains(m[0], []byte("kind")) // of gossip
				if found++; !hint && !strings.Contains(first, "`"+string(m[1])+"`") {
					t.Errorf("%s keeps records of the kind %q, which the table does not name", name, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("%d kinds of records only", found)
	}
}

// TestReadTree_LeavesOutWhatTheQuickStartWrote checks that output of the README's commands in the checkout is ignored.
func TestReadTree_LeavesOutWhatTheQuickStartWrote(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"out/orders/part.ndjson", "rfsd-failed/default/x", "bin/rfsd", "dist/out/a", "docs/out/A.md", "rfs/a.go", "rfs/a.test", ".git/HEAD"} {
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(strings.Join(ignored(t, root), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	_, all := readTree(t, dir)
	got := slices.Sorted(maps.Keys(all.files))
	want := []string{"", ".gitignore", "docs", "docs/out", "docs/out/A.md", "rfs", "rfs/a.go"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReferencesThatAreWrongAreFound(t *testing.T) {
	all := tree{
		files: map[string]bool{"docs": true, "docs/A.md": true, "rfs": true, "rfs/coordination/cms": true, "rfs/coordination/cms/item.go": true, "rfs/coordination/cms/DESIGN.md": true},
		tests: map[string][]string{"TestOne": {"rfs/coordination/cms"}},
	}
	right := page{"docs/A.md", "# A page\n[a](A.md#a-page) [b](https://example.com/x) `rfs/coordination/cms/item.go`, rfs/coordination/cms, `s3://b/c`, /etc/a/b.go\n"}
	for _, c := range []struct{ name, page, text, want string }{
		{"all right", "docs/A.md", right.text + "`TestOne` `TestO…`", ""},
		{"a name in the page's own folder", "rfs/coordination/cms/DESIGN.md", "`item.go`, `*.go`", ""},
		{"a link", "docs/A.md", "[a](B.md)", "B.md"},
		{"a heading", "docs/A.md", "# A\n[a](#b)", "heading"},
		{"a file", "docs/A.md", "see `rfs/coordination/cms/none.go`.", "rfs/coordination/cms/none.go"},
		{"a folder outside of backticks", "docs/A.md", "| rfs/destination/target | x |", "rfs/destination/target"},
		{"a bare name", "rfs/coordination/cms/DESIGN.md", "`none.go`", "none.go"},
		{"a pattern", "rfs/coordination/cms/DESIGN.md", "`rules_*.go`", "rules_*.go"},
		{"a test", "docs/A.md", "`TestTwo`", "TestTwo"},
		{"what is not a file", "docs/A.md", "`rfs/`, `other/x`, `rfs/NAME.go`, a `DESIGN.md` beside the code", ""},
		{"the beginning of a test", "docs/A.md", "`TestTw…`", "TestTw…"},
		{"a test of its package", "docs/SECURITY.md", "| x | cms `TestOne` |", ""},
		{"a test of another package", "docs/SECURITY.md", "| x | worker `TestOne` |", "TestOne of worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := page{c.page, c.text}
			got := strings.Join(slices.Concat(brokenLinks(p, []page{p}, all), missingPaths(p, all), missingTests(p, all), testsElsewhere(p, all)), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
