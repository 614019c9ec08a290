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
	"rfs/base/secret":           {},
	"rfs/base/fault":            {"rfs/base/secret"},
	"rfs/base/pattern":          {"rfs/base/fault"},
	"rfs/base/terminal":         {},
	"rfs/base/budget":           {},
	"rfs/base/overtime":         {},
	"rfs/base/early":            {},
	"rfs/base/files":            {"rfs/base/fault"},
	"rfs/source/repo":           {"rfs/base/fault", "rfs/base/awsconfig", "rfs/source/repo"},
	"rfs/source/smile":          {"rfs/base/fault"},
	"rfs/source/lzf":            {"rfs/base/fault"},
	"rfs/source/lucene":         {"rfs/base/fault", "rfs/source/lucene"},
	"rfs/source/snapshot":       {"rfs/base/fault", "rfs/source/repo", "rfs/source/smile", "rfs/source/lzf", "rfs/source/lucene", "rfs/source/snapshot"},
	"rfs/document/doc":          {"rfs/base/fault", "rfs/source/lucene", "rfs/source/smile", "rfs/source/lzf", "rfs/document/doc"},
	"rfs/source/rebuild":        {"rfs/base/fault", "rfs/source/lucene", "rfs/source/rebuild"},
	"rfs/destination/bulk":      {"rfs/base/fault", "rfs/document/doc", "rfs/destination/bulk"},
	"rfs/destination/failed":    {"rfs/base/files", "rfs/base/fault", "rfs/document/doc", "rfs/destination/bulk", "rfs/destination/failed"},
	"rfs/destination/target":    {"rfs/base/fault", "rfs/base/awsconfig", "rfs/base/budget", "rfs/base/overtime", "rfs/document/doc", "rfs/destination/bulk", "rfs/destination/target"},
	"rfs/operation/redrive":     {"rfs/base/files", "rfs/base/fault", "rfs/source/repo", "rfs/document/doc", "rfs/destination/bulk", "rfs/destination/failed", "rfs/operation/redrive"},
	"rfs/destination/export":    {"rfs/base/files", "rfs/base/fault", "rfs/document/doc", "rfs/destination/bulk", "rfs/destination/export"},
	"rfs/destination/metadata":  {"rfs/base/fault", "rfs/base/pattern", "rfs/source/snapshot", "rfs/destination/target", "rfs/document/rules", "rfs/destination/metadata"},
	"rfs/coordination/cms":      {"rfs/base/files", "rfs/base/fault", "rfs/base/overtime", "rfs/coordination/cms"},
	"rfs/source/live":           {"rfs/base/fault"},
	"rfs/coordination/progress": {"rfs/base/fault", "rfs/coordination/cms", "rfs/coordination/progress"},
	"rfs/document/rules":        {"rfs/base/fault", "rfs/base/pattern", "rfs/document/doc", "rfs/document/rules"},
	"rfs/coordination/schedule": {"rfs/coordination/cms", "rfs/coordination/schedule"},
	"rfs/operation/verify":      {"rfs/base/fault", "rfs/coordination/cms", "rfs/operation/verify"},
	"rfs/operation/trial":       {"rfs/base/fault"},
	"rfs/operation/rollback":    {"rfs/base/fault", "rfs/coordination/cms", "rfs/destination/metadata", "rfs/operation/rollback"},
	"rfs/migration/doctor":      {"rfs"},
	"rfs/migration/preflight":   {"rfs"},
	"rfs/stream/importer":       {"rfs"},
	"rfs/stream/consume":        {"rfs"},
	"rfs/stream/kafka":          {"rfs/base/fault", "rfs/base/budget", "rfs/stream/consume"},
	"rfs/migration/worker":      {"rfs"},
	"rfs/base/throttle":         {"rfs/base/throttle"},
	"rfs/base/awsconfig":        {"rfs/base/fault"},
	"rfs/base/awsquery":         {"rfs/base/awsconfig"},
	"gossip":                    {"rfs/base/fault", "rfs/base/awsquery", "rfs/coordination/cms", "gossip"},
	"store":                     {"rfs/base/files", "rfs/base/fault", "store"},
	// The parts of the daemon that others read from outside; the daemon itself wires everything.
	"rfs/destination/tuning":    {"rfs/base/fault", "rfs/coordination/cms", "rfs/destination/metadata"},
	"rfs/destination/diskwatch": {"rfs/base/fault"},
	"cmd/exit":                  {"rfs/coordination/progress"},
	"cmd/manual":                {"rfs/base/terminal", "cmd/config"},
	"cmd/config":                {"rfs", "daemon/cert", "cmd/config"},
	"cmd/state":                 {"rfs", "cmd/config"},
	"daemon/metrics":            {"rfs", "daemon/status", "daemon/metrics"},
	"daemon/status":             {"rfs/coordination/progress", "rfs/coordination/cms", "rfs/stream/consume", "rfs/stream/importer", "rfs/document/doc", "rfs/destination/failed/classes", "daemon/status"},
	"daemon/mirror":             {"rfs/base/fault", "rfs/coordination/cms", "rfs/coordination/progress"},
	"daemon/scale":              {"rfs/base/fault", "rfs/base/awsquery", "rfs/coordination/cms", "rfs/coordination/schedule", "rfs/base/secret"},
	"daemon/sharing":            {"rfs/base/files", "rfs/base/fault", "rfs/coordination/cms"},
	"daemon/cert":               {"rfs/base/files", "rfs/base/fault", "daemon/cert"},
	"daemon/web":                {"daemon/web", "daemon/status"},
	"daemon/api":                {"rfs/base/files", "rfs/base/fault", "daemon/status", "daemon/cert", "daemon/web", "daemon/api"},
	"daemon":                    {"rfs", "gossip", "store", "daemon"},
	"cmd/rfsd":                  {"rfs", "daemon", "gossip", "store", "cmd/config", "cmd/state", "cmd/exit", "cmd/manual", "cmd/rfsd"},
	"cmd/rfsctl":                {"rfs", "daemon/api", "daemon/status", "daemon/cert", "cmd/config", "cmd/state", "cmd/exit", "cmd/manual", "cmd/rfsctl"},
	"deploy":                    {"deploy"},
	"testing":                   {"rfs", "cmd", "daemon", "store", "gossip", "testing"},
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
		{"rfs/source/lucene", "rfs/source/snapshot"},
		{"rfs/coordination/cms", "rfs/destination/target"},
		{"rfs/migration/worker", "daemon"},
		{"rfs/base/fault", "rfs/document/doc"},
	} {
		if violates(c.key, c.imp) == "" {
			t.Errorf("%s may import %s", c.key, c.imp)
		}
	}
}
