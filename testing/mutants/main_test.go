package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryMutantHasItsSource checks that the lines of a mutant are in its file exactly once, and that its test exists, before the
// nightly run of the mutants does.
func TestEveryMutantHasItsSource(t *testing.T) {
	top := filepath.Join("..", "..")
	mutants, err := parse(list)
	if err != nil || len(mutants) == 0 {
		t.Fatalf("%d mutants: %v", len(mutants), err)
	}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join(top, m.file))
		if n := strings.Count(string(source), m.old); err != nil || n != 1 || m.old == m.new {
			t.Errorf("%s: %s holds the old lines %d times, %v", m.name, m.file, n, err)
		}
		named := regexp.MustCompile(`(?m)^func Test`)
		if i := slices.Index(m.test, "-run"); i >= 0 {
			first, _, _ := strings.Cut(m.test[i+1], "/")
			named = regexp.MustCompile(`(?m)^func Test\w*` + first)
		}
		files, err := filepath.Glob(filepath.Join(top, m.test[0], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && named.Match(b)
		}) {
			t.Errorf("%s: no test of %s is called %s", m.name, m.test[0], named)
		}
	}
}
