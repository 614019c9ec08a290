package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
)

var named = regexp.MustCompile("(?:^|[\\s`(\"'/|,\\[])--([a-z][a-z0-9-]*[a-z0-9])")

// ofOthers are options of every command, of curl, systemctl, useradd, zstd and aws, and the beginnings of names in --s3-… and --coordinator-….
var ofOthers = []string{
	"help", "version", "complete", "cacert", "cert", "key", "resolve", "unix-socket", "now", "create", "long",
	"assume-role-policy-document", "cli-input-json", "instance-profile-name", "policy-document", "policy-name", "role-name", "s3", "coordinator",
}

// TestEveryOptionThatIsNamedExists reads messages, helps and documents.
func TestEveryOptionThatIsNamedExists(t *testing.T) {
	known := slices.Clone(ofOthers)
	for _, spec := range config.Specs() {
		known = append(known, config.Names(config.Settings(spec.Settings))...)
	}
	root := filepath.Join("..", "..")
	n := 0
	look := func(place, text string) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			n++
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s names --%s", place, m[1])
			}
		}
	}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "testing", "bin", "dist", "testdata"}, d.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(x ast.Node) bool {
				if s, ok := x.(*ast.BasicLit); ok && s.Kind == token.STRING {
					if text, err := strconv.Unquote(s.Value); err == nil {
						look(name, text)
					}
				}
				return true
			})
		case strings.HasSuffix(name, ".md"):
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			look(name, string(b))
		}
		return nil
	})
	if err != nil || n < 300 {
		t.Errorf("%d options named, %v", n, err)
	}
}
