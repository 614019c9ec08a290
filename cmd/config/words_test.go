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
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/testing/configtest"
)

var named = regexp.MustCompile("(?:^|[\\s`(\"'/|,\\[])--([a-z][a-z0-9-]*[a-z0-9])")

// ofOthers are options of the library, of docker, curl, systemctl, useradd, zstd, sha256sum and aws, and the beginnings of names in --s3-… and --coordinator-….
var ofOthers = []string{
	"help", "help-all", "version", "generate-bash-completion", "cacert", "cert", "key", "resolve", "unix-socket", "now", "create", "long",
	"assume-role-policy-document", "cli-input-json", "instance-profile-name", "policy-document", "policy-name", "role-name", "s3", "coordinator", "recursive", "ignore-missing",
	"rm", "read-only", "cap-drop", "tmpfs", "user",
}

// TestEveryOptionThatIsNamedExists reads messages, helps and documents.
func TestEveryOptionThatIsNamedExists(t *testing.T) {
	known := slices.Clone(ofOthers)
	for _, spec := range configtest.Specs() {
		known = append(known, configtest.Names(config.Settings(spec.Settings))...)
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

func TestEverySettingIsDeclaredOnceAndWell(t *testing.T) {
	declared := map[string]config.Setting{}
	for _, spec := range configtest.Specs() {
		inCommand := map[string]bool{}
		program, _, _ := strings.Cut(spec.Path, " ")
		for _, s := range config.Settings(spec.Settings) {
			at := spec.Path + " --" + s.Name
			if s.Name == "" || s.Help == "" || s.Group == "" {
				t.Errorf("%s: name, help or group is missing: %+v", at, s)
			}
			if inCommand[s.Name] {
				t.Errorf("%s is there twice", at)
			}
			inCommand[s.Name] = true
			key := s.Name
			if s.Variable() == "" {
				key = program + " " + key // it belongs to its program alone
			}
			if other, ok := declared[key]; ok && !s.Same(other) {
				t.Errorf("%s is declared in two ways:\n%+v\n%+v", at, s, other)
			}
			declared[key] = s
			ends := func(end string) bool { return strings.HasSuffix(s.Name, end) }
			if secret := slices.ContainsFunc([]string{"password", "-api-key", "-token"}, ends); secret != s.Secret {
				t.Errorf("%s: secret %v", at, s.Secret)
			}
			if s.Secret && sharing.ClassOf(s.Name, nil) != sharing.Own {
				t.Errorf("%s is a secret that is shared", at)
			}
			if s.Secret && !slices.Contains(configtest.Names(config.Settings(spec.Settings)), s.Name+"-file") {
				t.Errorf("%s is a secret without a file to take it from", at)
			}
		}
	}
}
