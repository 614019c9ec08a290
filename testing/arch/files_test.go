package arch_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// writers are the calls that follow links, or write under names that can be guessed.
var writers = regexp.MustCompile(`\bos\.(OpenFile|Create|WriteFile|Rename|Mkdir|MkdirAll|Chown|Chmod|Truncate|Symlink|Link)\(`)

// exempt are the files that may use writers, with the reasons.
var exempt = map[string]string{
	"daemon/api/api.go":               "sets who may use a socket that it has just made",
	"rfs/destination/failed/files.go": "opens the null device",
	"cmd/rfsctl/page.go":              "likewise",
	"cmd/rfsctl/find.go":              "opens a socket to find out whether it may",
	"cmd/manual/manual.go":            "writes the manual pages when packages are built",
	"deploy/package/sbom/main.go":     "writes the list of dependencies when packages are built",
}

// TestFilesAreWrittenByOnePackage checks that product code creates and replaces files with package files only.
func TestFilesAreWrittenByOnePackage(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if rel == "testing" || rel == "rfs/base/files" || strings.HasPrefix(e.Name(), ".") && rel != "." || strings.HasSuffix(e.Name(), "test") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			code, _, _ := strings.Cut(lines.Text(), "//")
			if !writers.MatchString(code) {
				continue
			}
			if found[rel] = true; exempt[rel] == "" {
				t.Errorf("%s:%d: %s: use package rfs/base/files", rel, n, strings.TrimSpace(code))
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range exempt {
		if !found[name] {
			t.Errorf("%s needs no exemption", name)
		}
	}
	if !writers.MatchString(`os.OpenFile(name, flag, perm)`) || slices.ContainsFunc([]string{"files.OpenFile(", "root.OpenFile("}, writers.MatchString) {
		t.Error("the pattern is wrong")
	}
}
