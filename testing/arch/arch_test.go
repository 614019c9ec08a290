// Package arch_test checks the direction of imports between groups of packages and the references of documents.
package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rfsd/rfsd/"

// groups lists, for each group of rfs, the groups that its packages may import in addition to their own. The linter has a rule for
// each group, and narrower rules for some packages (.golangci.yml).
var groups = map[string][]string{
	"base":         {},
	"source":       {"base"},
	"document":     {"base", "source"},
	"coordination": {"base"},
	"destination":  {"base", "source", "document", "coordination"},
	"operation":    {"base", "source", "document", "coordination", "destination"},
	"migration":    {"base", "source", "document", "coordination", "destination", "operation"},
	"stream":       {"base", "source", "document", "coordination", "destination", "operation", "migration"},
}

// tops lists the imports that other top-level folders may have in addition to their own packages. All may import rfs/base.
var tops = map[string][]string{
	"gossip":  {"rfs/coordination"},
	"store":   {},
	"docs":    {},
	"daemon":  {"rfs", "gossip", "store", "docs"},
	"cmd":     {"rfs", "daemon", "gossip", "store"},
	"deploy":  {},
	"testing": {"rfs", "cmd", "daemon", "store", "gossip"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// violates returns why a package may not import another, or "". Paths are relative to the module.
func violates(path, imp string) string {
	var own string
	var may []string
	var ok bool
	if rest, rfs := strings.CutPrefix(path, "rfs/"); rfs {
		group, _, _ := strings.Cut(rest, "/")
		own = "rfs/" + group
		var names []string
		names, ok = groups[group]
		for _, name := range names {
			may = append(may, "rfs/"+name)
		}
	} else {
		own, _, _ = strings.Cut(path, "/")
		may, ok = tops[own]
		may = append(slices.Clone(may), "rfs/base")
	}
	if !ok {
		return path + " belongs to no group: see rfs/DESIGN.md"
	}
	for _, prefix := range append(may, own) {
		if imp == prefix || strings.HasPrefix(imp, prefix+"/") {
			return ""
		}
	}
	return path + " may not import " + imp + ": see rfs/DESIGN.md"
}

func TestGroups_ImportOneWay(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("only %d packages listed", len(all))
	}
	below := map[string]bool{}
	for _, p := range all {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if bad := violates(path, strings.TrimPrefix(imp, module)); bad != "" {
				t.Error(bad)
			}
		}
		if rest, ok := strings.CutPrefix(path, "rfs/"); ok {
			group, _, _ := strings.Cut(rest, "/")
			below[group] = true
		}
	}
	if len(below) > 12 {
		t.Errorf("%d folders are directly below rfs; 12 are the limit", len(below))
	}
}

// TestGroups_AreRulesOfTheLinter compares the table above with the rules of the linter.
func TestGroups_AreRulesOfTheLinter(t *testing.T) {
	conf, err := os.ReadFile("../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	for group, may := range groups {
		rule := regexp.MustCompile(`(?m)^        group-` + group + `:\n +files: \["\*\*/rfs/` + group + `/\*\*/\*\.go", "!\$test"\]\n +list-mode: lax\n +allow: \[(.*)\]\n`).FindSubmatch(conf)
		if rule == nil {
			t.Errorf("no rule group-%s", group)
			continue
		}
		want := []string{module + "rfs/" + group}
		for _, name := range may {
			want = append(want, module+"rfs/"+name)
		}
		slices.Sort(want)
		got := strings.Split(strings.ReplaceAll(string(rule[1]), `"`, ""), ", ")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("group-%s allows %v, not %v", group, got, want)
		}
	}
}

func TestForbiddenImportsAreFound(t *testing.T) {
	for _, c := range []struct{ path, imp string }{
		{"rfs/source/lucene", "rfs/document/doc"},
		{"rfs/coordination/cms", "rfs/destination/target"},
		{"rfs/migration/worker", "daemon"},
		{"rfs/base/fault", "rfs/document/doc"},
		{"rfs/loose", "rfs/base/fault"},
		{"gossip", "daemon/api"},
	} {
		if violates(c.path, c.imp) == "" {
			t.Errorf("%s may import %s", c.path, c.imp)
		}
	}
}
