package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logCalls are the functions of log/slog that take keys and values.
var logCalls = []string{"With", "Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Log"}

// bareItems returns the positions of log calls that have the id of an item without naming its index and shard, or the subject, before it.
func bareItems(set *token.FileSet, file *ast.File) (bare []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || !slices.Contains(logCalls, f.Sel.Name) {
			return true
		}
		named := false
		for _, a := range call.Args {
			lit, ok := a.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			switch key, err := strconv.Unquote(lit.Value); {
			case err != nil:
			case key == "index" || key == "subject":
				named = true
			case key == "item" && !named:
				bare = append(bare, set.Position(lit.Pos()).String())
			}
		}
		return true
	})
	return bare
}

func TestLogLinesNameWhatAnItemIs(t *testing.T) {
	set := token.NewFileSet()
	found := 0
	for _, top := range []string{"rfs", "cmd", "daemon", "gossip", "store"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			found++
			for _, at := range bareItems(set, file) {
				t.Errorf("%s: an item's id alone; name index and shard, or the subject, before it", at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("only %d files were read", found)
	}
	src := `package p; func f() { log.Warn("lost", "item", id); log.Warn("lost", "index", x, "item", id) }`
	file, err := parser.ParseFile(set, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if bare := bareItems(set, file); len(bare) != 1 {
		t.Errorf("the check finds %v", bare)
	}
}
