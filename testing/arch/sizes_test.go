package arch_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// Bounds of files, folders and packages, so that a reader finds his way by the folder list. Lines and files of tests do not count
// for packages.
const (
	mostFileLines    = 500
	mostPackageLines = 4000
	mostFiles        = 30 // of a package
	mostGroups       = 12 // folders directly below rfs
)

// long are the packages that may have more lines: readers of file formats.
var long = map[string]bool{"rfs/source/lucene": true, "rfs/source/rebuild": true}

// TestSizes_AreBounded counts the lines of Go files and packages, and the files of packages.
func TestSizes_AreBounded(t *testing.T) {
	root := os.DirFS("../..")
	lines, files, groups := map[string]int{}, map[string]int{}, 0
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if entry.IsDir() {
			if dir == "rfs" {
				groups++
			}
			if strings.HasPrefix(entry.Name(), ".") && name != "." || name == "bin" || name == "dist" || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		n := bytes.Count(b, []byte("\n"))
		if n > mostFileLines {
			t.Errorf("%s has %d lines; at most %d", name, n, mostFileLines)
		}
		if !strings.HasSuffix(name, "_test.go") {
			lines[dir] += n
			files[dir]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 100 {
		t.Errorf("only %d packages were found", len(lines))
	}
	for dir, n := range lines {
		if n > mostPackageLines && !long[dir] {
			t.Errorf("%s has %d lines; at most %d", dir, n, mostPackageLines)
		}
		if files[dir] > mostFiles {
			t.Errorf("%s has %d files; at most %d", dir, files[dir], mostFiles)
		}
	}
	if groups > mostGroups {
		t.Errorf("rfs has %d folders; at most %d", groups, mostGroups)
	}
}
