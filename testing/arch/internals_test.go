package arch_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// fromOutside are packages whose tests see what their users see, so that the inside can be changed without the tests.
var fromOutside = []string{"rfs/coordination/session", "rfs/migration/phase", "rfs/migration/worker", "rfs/operation/rollback"}

// TestTests_SeeWhatUsersSee reports test files that are declared in one of these packages.
func TestTests_SeeWhatUsersSee(t *testing.T) {
	for _, dir := range fromOutside {
		names, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has no tests: %v", dir, err)
		}
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(f.Name.Name, "_test") {
				t.Errorf("%s/%s is in the package %s; test what other packages see", dir, filepath.Base(name), f.Name.Name)
			}
		}
	}
}
