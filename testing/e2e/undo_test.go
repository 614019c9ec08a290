package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
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
	if err := outputtest.Decode(r.Stdout, &all); err != nil {
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

// TestUndoRemovesWhatAMigrationCreatedAndNothingElse checks that an earlier index, an index that another client wrote to, and objects of
// others stay.
func TestUndoRemovesWhatAMigrationCreatedAndNothingElse(t *testing.T) {
	for _, version := range draw.Of(t, 1, targets) {
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
					t.Errorf("the session continues: exit %d: %s", res.Code, res.Stderr)
				}
				node := append([]string{"run", "--one-machine", "--data-dir", t.TempDir()}, args[1:]...)
				if res := RunIn(t, dir, nil, "rfsd", node...); res.Code != 1 || !strings.Contains(res.Stderr, "rfsctl undo") {
					t.Errorf("a node continues: exit %d: %s", res.Code, res.Stderr)
				}
			})
		}
	}
}

// undone runs `rfsctl undo --yes` and returns its list.
func undone(t *testing.T, want int, at ...string) map[string]createdEntry {
	t.Helper()
	res := Run(t, "rfsctl", append([]string{"undo", "--yes", "--output", "json"}, at...)...)
	if res.Code != want {
		t.Errorf("undo: exit %d, want %d: %s%s", res.Code, want, res.Stdout, res.Stderr)
	}
	return createdOf(t, res)
}

// TestUndoOfADataStream checks that a data stream of the migration is removed with its template, unless it was rolled over.
func TestUndoOfADataStream(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	name := "data-stream " + streamOfFixture
	at := []string{"--target-host", n.URL}
	fill := func() (before []string) {
		t.Helper()
		withoutStreams(t, n)
		theirs(t, n)
		before = onTarget(t, n)
		if res := Run(t, "rfsd", targetArgs(n.URL, streamRepos()[0], "--data-streams", "create")...); res.Code != 0 {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		return before
	}
	refused := func(reason string) {
		t.Helper()
		e := undone(t, 7, at...)[name]
		if e.State != "refused" || !strings.Contains(e.Reason, reason) || !strings.Contains(e.Reason, "DELETE /_data_stream/"+streamOfFixture) {
			t.Errorf("%+v", e)
		}
		if countOf(t, n, streamOfFixture) == 0 {
			t.Error("its documents are gone")
		}
	}
	fill()
	call(t, n, "POST", "/"+streamOfFixture+"/_rollover", nil)
	refused("that it did not have at the end of the migration")
	before := fill()
	if e := undone(t, 0, at...)[name]; e.State != "removed" {
		t.Errorf("%+v", e)
	}
	if after := onTarget(t, n); !slices.Equal(after, before) {
		t.Errorf("left %v, before %v", after, before)
	}
}

// TestUndoGivesTunedSettingsBack undoes a migration that was killed while the settings of its indices were tuned. Another client has
// changed one of these settings since.
func TestUndoGivesTunedSettingsBack(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	k := newKiller(t, n)
	k.run(t, "POST /_bulk", 3, true, "rfsd", targetArgs(k.URL, demoRepo(), "--tune-target", "--initial-lease-duration", "2s", "--documents-per-bulk-request", "1", "--slots", "1")...)
	touched := ""
	for name, is := range tuning(t, n) {
		if is == "refresh -1 replicas 0" && countOf(t, n, name) > 0 { // undo removes an index that has received no document
			touched = name
		}
	}
	if touched == "" {
		t.Fatalf("nothing was tuned: %v", tuning(t, n))
	}
	call(t, n, "PUT", "/"+touched+"/_settings", map[string]any{"index": map[string]any{"number_of_replicas": 2}})
	at := []string{"--target-host", n.URL}
	until(t, "the lease has ended", func() bool { return Run(t, "rfsctl", append([]string{"undo"}, at...)...).Code == 1 })
	was := createdOf(t, Run(t, "rfsctl", append([]string{"created", "--output", "json"}, at...)...))
	list := undone(t, 7, at...)
	refresh, replicas := "setting "+touched+" index.refresh_interval", "setting "+touched+" index.number_of_replicas"
	if was[refresh].State != "changed" || list[replicas].State != "refused" || !strings.Contains(list[replicas].Reason, "changed by others and left") {
		t.Errorf("%+v, then %+v", was[refresh], list[replicas])
	}
	if e := list["index "+touched]; e.State != "refused" {
		t.Errorf("%+v", e)
	}
	for name, is := range tuning(t, n) {
		if strings.HasPrefix(is, "refresh -1") || name == touched && !strings.HasSuffix(is, "replicas 2") {
			t.Errorf("%s stays tuned: %s", name, is)
		}
	}
}

// TestUndoOfAnImport checks that indices of --create-indices are removed, and that earlier indices and indices with others' documents stay.
func TestUndoOfAnImport(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	theirs(t, n)
	call(t, n, "PUT", "/old", map[string]any{})
	before := onTarget(t, n)
	dir := t.TempDir()
	var lines strings.Builder
	for _, index := range []string{"old", "new-1", "new-2"} {
		for i := range 20 {
			fmt.Fprintf(&lines, "{\"index\":{\"_index\":%q,\"_id\":\"%d\"}}\n{\"a\":%d}\n", index, i, i)
		}
	}
	must(t, os.WriteFile(dir+"/a.ndjson", []byte(lines.String()), 0o600))
	k := newKiller(t, n)
	args := []string{"import", "--from", dir, "--target-host", k.URL, "--session-name", "moved", "--create-indices", "--window-lease", "8s", "--output", "json"}
	at := []string{"--target-host", n.URL, "--session-name", "moved"}
	k.run(t, "PUT /new-1", 1, true, "rfsd", args...)
	if res := Run(t, "rfsctl", append([]string{"undo", "--yes"}, at...)...); res.Code != 4 || !strings.Contains(res.Stderr, "the session runs") {
		t.Errorf("while a lease is held: exit %d: %s", res.Code, res.Stderr)
	}
	if res := Run(t, "rfsd", args...); res.Code != 0 {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	list := createdOf(t, Run(t, "rfsctl", append([]string{"created", "--output", "json"}, at...)...))
	if got := withoutAliases(list); !slices.Equal(got, []string{"index new-1", "index new-2"}) {
		t.Errorf("created %v", got)
	}
	call(t, n, "PUT", "/new-2/_doc/by-hand", map[string]any{"by": "hand"})
	list = undone(t, 7, at...)
	if e := list["index new-2"]; list["index new-1"].State != "removed" || e.State != "refused" || !strings.Contains(e.Reason, "written to after") {
		t.Errorf("%+v", list)
	}
	if after := onTarget(t, n); !slices.Equal(after, slices.Sorted(slices.Values(append(before, "index new-2")))) {
		t.Errorf("left %v, before %v", after, before)
	}
	if res := Run(t, "rfsctl", append([]string{"status"}, at...)...); !strings.Contains(res.Stdout, "import, session moved: undone\n") || !strings.Contains(res.Stdout, " windows, ") {
		t.Errorf("status: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	call(t, n, "DELETE", "/new-2", nil)
	undone(t, 0, at...)
	for _, more := range [][]string{nil, {"--yes"}} {
		if res := Run(t, "rfsctl", append(append([]string{"undo"}, more...), at...)...); res.Code != 0 || !strings.Contains(res.Stdout, "nothing is recorded") {
			t.Errorf("nothing is left to undo, %v: exit %d: %s%s", more, res.Code, res.Stdout, res.Stderr)
		}
	}
	if res := Run(t, "rfsd", args...); res.Code != 1 || !strings.Contains(res.Stderr, "rfsctl undo") {
		t.Errorf("the import continues: exit %d: %s", res.Code, res.Stderr)
	}
}
