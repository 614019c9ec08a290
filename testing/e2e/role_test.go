package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestRole_Suffices: a user with the roles of deploy/opensearch plans, migrates, verifies, follows, imports and undoes; without the role for it, it
// removes nothing; and a single action that the role lacks is named.
func TestRole_Suffices(t *testing.T) {
	n := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "opensearch", "role.yml"))
	must(t, err)
	var roles map[string]map[string]any
	must(t, yaml.Unmarshal(b, &roles))
	for name, role := range roles {
		call(t, n, "PUT", "/_plugins/_security/api/roles/"+name, role)
	}
	const password = "Zx81-qWert!pLm7"
	call(t, n, "PUT", "/_plugins/_security/api/internalusers/mover", map[string]any{"password": password})
	call(t, n, "PUT", "/_plugins/_security/api/rolesmapping/rfsd", map[string]any{"users": []string{"mover"}})
	dir := t.TempDir()
	secret := []string{"RFS_TARGET_PASSWORD=" + password}
	target := []string{"--target-host", n.URL, "--target-username", "mover", "--target-cacert", n.CACert}
	run := func(code int, program string, args ...string) Result {
		t.Helper()
		r := RunIn(t, dir, secret, program, append(args, target...)...)
		if r.Code != code || code == 0 && strings.Contains(r.Stdout+r.Stderr, "no permissions for") {
			t.Errorf("%s %q: exit %d: %s %s", program, args, r.Code, r.Stdout, r.Stderr)
		}
		return r
	}
	templates := []string{"--repo-uri", fixture(t, "7.10.2-templates"), "--snapshot-name", "snap1", "--session-name", "perm", "--include", "pipelines", "--include", "scripts"}
	run(0, "rfsd", append([]string{"plan"}, templates...)...)
	// The server has no plugin for policies, so a plan with them ends as a problem or a warning that names it.
	r := RunIn(t, dir, secret, "rfsd", slices.Concat([]string{"plan", "--include", "attachments"}, templates, target)...)
	for _, what := range []string{"create ISM policies", "attach ISM policies"} {
		if !strings.Contains(r.Stdout, "may "+what) || !strings.Contains(r.Stdout, "the target lacks the plugin") {
			t.Errorf("plan without the plugin: exit %d, %s: %s %s", r.Code, what, r.Stdout, r.Stderr)
		}
	}
	run(0, "rfsd", append([]string{"migrate", "--tune-target"}, templates...)...)
	run(0, "rfsctl", "status", "--session-name", "perm")
	run(0, "rfsd", append([]string{"verify"}, templates[:6]...)...)
	history := []string{"--repo-uri", fixture(t, "7.10.2-history"), "--session-name", "hist"}
	run(0, "rfsd", append([]string{"follow", "--once", "--snapshot-name", "snap-1", "--index-allowlist", "grows"}, history...)...)
	run(0, "rfsd", append([]string{"follow", "--once", "--snapshot-name", "snap-3", "--index-allowlist", "grows"}, history...)...)
	run(0, "rfsctl", "cutover", "--dry-run", "--session-name", "hist")
	if r := RunIn(t, dir, nil, "rfsd", "migrate", "--repo-uri", fixture(t, "7.10.2-history"), "--snapshot-name", "snap-1", "--index-allowlist", "leaves", "--export-dir", "out"); r.Code != 0 {
		t.Errorf("export: exit %d: %s", r.Code, r.Stderr)
	}
	run(0, "rfsd", "import", "--from", "out", "--create-indices", "--session-name", "files")
	if r := run(7, "rfsctl", "undo", "--session-name", "perm", "--yes"); !strings.Contains(r.Stdout, "indices:admin/delete") {
		t.Errorf("undo without the role for it: %s", r.Stdout)
	}
	call(t, n, "PUT", "/_plugins/_security/api/rolesmapping/rfsd_undo", map[string]any{"users": []string{"mover"}})
	if r := run(7, "rfsctl", "undo", "--session-name", "perm", "--yes"); strings.Contains(r.Stdout, "no permissions") || !strings.Contains(r.Stderr, "1 of 15 objects were refused") {
		t.Errorf("undo leaves more than the script, which has no place for a mark: %s %s", r.Stdout, r.Stderr)
	}
	run(0, "rfsctl", "cleanup", "--session-name", "perm", "--force")
	t.Run("without one action", func(t *testing.T) {
		for _, action := range []string{
			"indices:data/write/index", "indices:data/write/bulk*", "cluster:admin/ingest/pipeline/put", "cluster:admin/script/put", "cluster:admin/component_template/put",
			"indices:admin/index_template/put", "indices:admin/template/put",
		} {
			wipe(t, n)
			state, _ := call(t, n, "GET", "/_cluster/state/metadata?filter_path=metadata.stored_scripts", nil)["metadata"].(map[string]any)
			scripts, _ := state["stored_scripts"].(map[string]any)
			for name := range scripts {
				call(t, n, "DELETE", "/_scripts/"+name, nil)
			}
			call(t, n, "PUT", "/_plugins/_security/api/roles/rfsd", without(roles["rfsd"], action))
			named := strings.TrimSuffix(action, "*")
			at := slices.Replace(slices.Clone(templates), 5, 6, "minus")
			if r := RunIn(t, dir, secret, "rfsd", slices.Concat([]string{"plan"}, at, target)...); r.Code != 7 || !strings.Contains(r.Stdout, named) {
				t.Errorf("plan without %s: exit %d: %s %s", action, r.Code, r.Stdout, r.Stderr)
			}
			r := RunIn(t, dir, secret, "rfsd", slices.Concat([]string{"migrate"}, at, target)...)
			if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, named) || !strings.Contains(r.Stdout+r.Stderr, "PERMISSIONS.md") {
				t.Errorf("migrate without %s: exit %d: %s %s", action, r.Code, r.Stdout, r.Stderr)
			}
			t.Logf("%s: exit %d: %s", action, r.Code, r.Stderr)
		}
	})
}

// without returns a role that does not grant one action.
func without(role map[string]any, action string) map[string]any {
	r := maps.Clone(role)
	less := func(all any) []any {
		list, _ := all.([]any)
		return slices.DeleteFunc(slices.Clone(list), func(x any) bool { return x == action })
	}
	r["cluster_permissions"] = less(r["cluster_permissions"])
	var indices []any
	granted, _ := r["index_permissions"].([]any)
	for _, x := range granted {
		grant, _ := x.(map[string]any)
		grant = maps.Clone(grant)
		grant["allowed_actions"] = less(grant["allowed_actions"])
		indices = append(indices, grant)
	}
	r["index_permissions"] = indices
	return r
}
