package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// createdEntry is what the tests read of a list of what was created.
type createdEntry struct {
	Kind, Name, UUID, State, Reason string
	Was                             *string
}

// createdOf reads a list of `rfsctl created` or `rfsctl undo` by "kind name".
func createdOf(t *testing.T, r Result) map[string]createdEntry {
	t.Helper()
	var all []createdEntry
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
		t.Fatalf("list: %v\nexit %d: %s%s", err, r.Code, r.Stdout, r.Stderr)
	}
	byName := map[string]createdEntry{}
	for _, e := range all {
		byName[e.Kind+" "+e.Name] = e
	}
	return byName
}

// withoutAliases returns the names of a list that stand for themselves, sorted.
func withoutAliases(list map[string]createdEntry) (names []string) {
	for name := range list {
		if !strings.HasPrefix(name, "alias ") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// onTarget returns "kind name" of what a target has, without what rfsd keeps and the system's own.
func onTarget(t *testing.T, n *cluster.Node) (all []string) {
	t.Helper()
	for kind, from := range map[string]struct{ path, list string }{
		"index": {"/*?expand_wildcards=all", ""}, "template": {"/_template", ""}, "component-template": {"/_component_template", "component_templates"},
		"index-template": {"/_index_template", "index_templates"}, "pipeline": {"/_ingest/pipeline", ""},
	} {
		answer := call(t, n, "GET", from.path, nil)
		if from.list != "" {
			for _, x := range answer[from.list].([]any) {
				all = append(all, kind+" "+x.(map[string]any)["name"].(string))
			}
			continue
		}
		for name := range answer {
			if !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "top_queries") {
				all = append(all, kind+" "+name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// theirs puts an index, a template and a pipeline of others there.
func theirs(t *testing.T, n *cluster.Node) {
	t.Helper()
	call(t, n, "PUT", "/theirs/_doc/1?refresh=true", map[string]any{"a": 1})
	call(t, n, "PUT", "/_index_template/theirs", map[string]any{"index_patterns": []string{"theirs-*"}})
	call(t, n, "PUT", "/_ingest/pipeline/theirs", map[string]any{"processors": []any{}})
}

// TestUndoRemovesWhatAMigrationCreatedAndNothingElse: an index that existed before, one that somebody wrote to, and objects
// of others stay.
func TestUndoRemovesWhatAMigrationCreatedAndNothingElse(t *testing.T) {
	for _, version := range targets {
		for _, file := range []bool{false, true} {
			name := version + "/state in the target"
			if file {
				name = version + "/state in a file"
			}
			t.Run(name, func(t *testing.T) {
				n := cluster.OpenSearch(t, version)
				wipe(t, n)
				theirs(t, n)
				call(t, n, "PUT", "/catalogue", map[string]any{"mappings": map[string]any{"dynamic": false}})
				dir := t.TempDir()
				args := targetArgs(n.URL, demoRepo(), "--tune-target")
				at := []string{"--target-host", n.URL, "--output", "json"}
				if file {
					args, at = append(args, "--coordinator-file", dir+"/state.db"), append(at, "--coordinator-file", dir+"/state.db")
				}
				before := onTarget(t, n)
				if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
					t.Fatalf("exit %d: %s", res.Code, res.Stderr)
				}
				created := append([]string{"created"}, at...)
				res := Run(t, "rfsctl", created...)
				list := createdOf(t, res)
				var added []string
				for _, x := range onTarget(t, n) {
					if !slices.Contains(before, x) {
						added = append(added, x)
						if e := list[x]; e.State != "created" || strings.HasPrefix(x, "index ") && e.UUID == "" {
							t.Errorf("%s: %+v", x, e)
						}
					}
				}
				if res.Code != 0 || len(withoutAliases(list)) != len(added) || len(added) < 2 || list["alias sales of orders"].State != "created" {
					t.Errorf("exit %d, list %v, added %v", res.Code, list, added)
				}
				undo := append([]string{"undo"}, at...)
				if res := Run(t, "rfsctl", undo...); res.Code != 1 || !strings.Contains(res.Stderr, "--yes") || len(withoutAliases(createdOf(t, res))) != len(added) {
					t.Errorf("without --yes: exit %d: %s", res.Code, res.Stderr)
				}
				call(t, n, "PUT", "/orders/_doc/by-hand", map[string]any{"by": "hand"})
				for range 2 {
					res = Run(t, "rfsctl", append(undo, "--yes")...)
					list = createdOf(t, res)
					if e := list["index orders"]; res.Code != 7 || e.State != "refused" || !strings.Contains(e.Reason, "written to after the migration: 1 operations") || !strings.Contains(e.Reason, "DELETE /orders") {
						t.Errorf("exit %d: %s: %+v", res.Code, res.Stderr, list)
					}
				}
				if after := onTarget(t, n); !slices.Equal(after, slices.Sorted(slices.Values(append(before, "index orders")))) {
					t.Errorf("left %v, before %v", after, before)
				}
				if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 1 || !strings.Contains(res.Stderr, "rfsctl undo") {
					t.Errorf("the session goes on: exit %d: %s", res.Code, res.Stderr)
				}
			})
		}
	}
}
