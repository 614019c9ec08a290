// Package arch_test checks the dependency rules, which package may import which, and the references of documents. The
// linter has the same dependency rules (.golangci.yml); this test reads the imports from go list.
package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/rfsd/rfsd/"

// allowed lists, per package, the packages that it may import. A key stands for the packages below it too; the longest
// key that matches a package counts.
var allowed = map[string][]string{
	"rfs/secret":     {},
	"rfs/fault":      {"rfs/secret"},
	"rfs/pattern":    {"rfs/fault"},
	"rfs/terminal":   {},
	"rfs/budget":     {},
	"rfs/overtime":   {},
	"rfs/base/early": {},
	"rfs/files":      {"rfs/fault"},
	"rfs/repo":       {"rfs/fault", "rfs/awsconfig", "rfs/repo"},
	"rfs/smile":      {"rfs/fault"},
	"rfs/lzf":        {"rfs/fault"},
	"rfs/lucene":     {"rfs/fault", "rfs/lucene"},
	"rfs/snapshot":   {"rfs/fault", "rfs/repo", "rfs/smile", "rfs/lzf", "rfs/lucene", "rfs/snapshot"},
	"rfs/doc":        {"rfs/fault", "rfs/lucene", "rfs/smile", "rfs/lzf", "rfs/doc"},
	"rfs/rebuild":    {"rfs/fault", "rfs/lucene", "rfs/rebuild"},
	"rfs/bulk":       {"rfs/fault", "rfs/doc", "rfs/bulk"},
	"rfs/failed":     {"rfs/files", "rfs/fault", "rfs/doc", "rfs/bulk", "rfs/failed"},
	"rfs/target":     {"rfs/fault", "rfs/awsconfig", "rfs/budget", "rfs/overtime", "rfs/doc", "rfs/bulk", "rfs/target"},
	"rfs/redrive":    {"rfs/files", "rfs/fault", "rfs/repo", "rfs/doc", "rfs/bulk", "rfs/failed", "rfs/redrive"},
	"rfs/export":     {"rfs/files", "rfs/fault", "rfs/doc", "rfs/bulk", "rfs/export"},
	"rfs/metadata":   {"rfs/fault", "rfs/pattern", "rfs/snapshot", "rfs/target", "rfs/rules", "rfs/metadata"},
	"rfs/cms":        {"rfs/files", "rfs/fault", "rfs/overtime", "rfs/cms"},
	"rfs/source":     {"rfs/fault", "rfs/source"},
	"rfs/progress":   {"rfs/fault", "rfs/cms", "rfs/progress"},
	"rfs/rules":      {"rfs/fault", "rfs/pattern", "rfs/doc", "rfs/rules"},
	"rfs/schedule":   {"rfs/cms", "rfs/schedule"},
	"rfs/verify":     {"rfs/fault", "rfs/cms", "rfs/verify"},
	"rfs/trial":      {"rfs/fault"},
	"rfs/rollback":   {"rfs/fault", "rfs/cms", "rfs/metadata", "rfs/rollback"},
	"rfs/doctor":     {"rfs"},
	"rfs/preflight":  {"rfs"},
	"rfs/importer":   {"rfs"},
	"rfs/consume":    {"rfs"},
	"rfs/kafka":      {"rfs/fault", "rfs/budget", "rfs/consume"},
	"rfs/worker":     {"rfs"},
	"rfs/throttle":   {"rfs/throttle"},
	"rfs/awsconfig":  {"rfs/fault"},
	"rfs/awsquery":   {"rfs/awsconfig"},
	"gossip":         {"rfs/fault", "rfs/awsquery", "rfs/cms", "gossip"},
	"store":          {"rfs/files", "rfs/fault", "store"},
	// The parts of the daemon that others read from outside; the daemon itself wires everything.
	"rfs/tuning":     {"rfs/fault", "rfs/cms", "rfs/metadata"},
	"rfs/diskwatch":  {"rfs/fault"},
	"cmd/exit":       {"rfs/progress"},
	"cmd/manual":     {"rfs/terminal", "cmd/config"},
	"cmd/config":     {"rfs", "daemon/cert", "cmd/config"},
	"cmd/state":      {"rfs", "cmd/config"},
	"daemon/metrics": {"rfs", "daemon/status", "daemon/metrics"},
	"daemon/status":  {"rfs/progress", "rfs/cms", "rfs/consume", "rfs/importer", "rfs/doc", "rfs/failed/classes", "daemon/status"},
	"daemon/mirror":  {"rfs/fault", "rfs/cms", "rfs/progress"},
	"daemon/scale":   {"rfs/fault", "rfs/awsquery", "rfs/cms", "rfs/schedule", "rfs/secret"},
	"daemon/sharing": {"rfs/files", "rfs/fault", "rfs/cms"},
	"daemon/cert":    {"rfs/files", "rfs/fault", "daemon/cert"},
	"daemon/web":     {"daemon/web", "daemon/status"},
	"daemon/api":     {"rfs/files", "rfs/fault", "daemon/status", "daemon/cert", "daemon/web", "daemon/api"},
	"daemon":         {"rfs", "gossip", "store", "daemon"},
	"cmd/rfsd":       {"rfs", "daemon", "gossip", "store", "cmd/config", "cmd/state", "cmd/exit", "cmd/manual", "cmd/rfsd"},
	"cmd/rfsctl":     {"rfs", "daemon/api", "daemon/status", "daemon/cert", "cmd/config", "cmd/state", "cmd/exit", "cmd/manual", "cmd/rfsctl"},
	"deploy":         {"deploy"},
	"testing":        {"rfs", "cmd", "daemon", "store", "gossip", "testing"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Imports", module+"...") // a profile would name packages once per program
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

// owner returns the key of allowed that counts for a package.
func owner(path string) (string, bool) {
	best := ""
	for r := range allowed {
		if (path == r || strings.HasPrefix(path, r+"/")) && len(r) > len(best) {
			best = r
		}
	}
	return best, best != ""
}

func TestImportsFollowTheDependencyRules(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("only %d packages listed", len(all))
	}
	for _, p := range all {
		path := strings.TrimPrefix(p.ImportPath, module)
		key, ok := owner(path)
		if !ok {
			t.Errorf("package %s has no dependency rule: add it to allowed, .golangci.yml and rfs/DESIGN.md", path)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if bad := violates(key, strings.TrimPrefix(imp, module)); bad != "" {
				t.Errorf("%s imports %s: %s", path, strings.TrimPrefix(imp, module), bad)
			}
		}
	}
}

// violates returns why a package may not import another, or "".
func violates(key, imp string) string {
	for _, ok := range allowed[key] {
		if imp == ok || strings.HasPrefix(imp, ok+"/") {
			return ""
		}
	}
	return "not an allowed dependency (rfs/DESIGN.md)"
}

func TestForbiddenImportsAreFound(t *testing.T) {
	for _, c := range []struct{ key, imp string }{
		{"rfs/lucene", "rfs/snapshot"},
		{"rfs/cms", "rfs/target"},
		{"rfs/worker", "daemon"},
		{"rfs/fault", "rfs/doc"},
	} {
		if violates(c.key, c.imp) == "" {
			t.Errorf("%s may import %s", c.key, c.imp)
		}
	}
}
