package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
				if res.Code != 0 || len(list) != len(added) || len(added) < 2 {
					t.Errorf("exit %d, list %v, added %v", res.Code, list, added)
				}
				undo := append([]string{"undo"}, at...)
				if res := Run(t, "rfsctl", undo...); res.Code != 1 || !strings.Contains(res.Stderr, "--yes") || len(createdOf(t, res)) != len(added) {
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

// killer stands before a node and kills a process at a request, before or after the node does it.
type killer struct {
	*httptest.Server
	mu      sync.Mutex
	victim  *exec.Cmd
	request string // "PUT /_template/": method and the beginning of the path
	nth     int
	after   bool
	seen    int
}

func newKiller(t *testing.T, n *cluster.Node) *killer {
	k := &killer{}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		kill := k.due(r)
		if kill && !k.after {
			_ = k.victim.Process.Kill()
			return
		}
		out, err := http.NewRequestWithContext(t.Context(), r.Method, n.URL+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			return
		}
		out.Header = r.Header.Clone()
		answer, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			return
		}
		defer answer.Body.Close()
		if kill {
			_ = k.victim.Process.Kill()
			return
		}
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *killer) due(r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.victim == nil || !strings.HasPrefix(r.Method+" "+r.URL.Path, k.request) {
		return false
	}
	k.seen++
	return k.seen == k.nth
}

// run starts a program that is killed at the nth such request, and waits for its end.
func (k *killer) run(t *testing.T, request string, nth int, after bool, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Binary(t, name), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	k.mu.Lock()
	must(t, cmd.Start())
	k.victim, k.request, k.nth, k.after, k.seen = cmd, request, nth, after, 0
	k.mu.Unlock()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("%s was not killed at %s: %v\n%s", name, request, err, &out)
	}
	k.mu.Lock()
	k.victim = nil
	k.mu.Unlock()
}

// TestWhatWasCreatedIsKnownAfterKills kills a migration before and after a template and an index are created, and the undo
// in the middle.
func TestWhatWasCreatedIsKnownAfterKills(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, c := range []struct {
		name, request string
		after         bool
	}{
		{"before a template", "PUT /_template/", false}, {"after a template", "PUT /_template/", true},
		{"after an index template", "PUT /_index_template/", true}, {"before an index", "PUT /new-1", false}, {"after an index", "PUT /new-1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, n)
			theirs(t, n)
			before := onTarget(t, n)
			k := newKiller(t, n)
			args := targetArgs(k.URL, fixture(t, "7.10.2-templates"), "--initial-lease-duration", "5s")
			at := []string{"--target-host", k.URL, "--output", "json"}
			added := func() (all []string) {
				for _, x := range onTarget(t, n) {
					if !slices.Contains(before, x) {
						all = append(all, x)
					}
				}
				return all
			}
			listed := func() (all []string) {
				for x := range createdOf(t, Run(t, "rfsctl", append([]string{"created"}, at...)...)) {
					if !strings.HasPrefix(x, "alias ") {
						all = append(all, x)
					}
				}
				slices.Sort(all)
				return all
			}
			k.run(t, c.request, 1, c.after, "rfsd", args...)
			if got, want := listed(), added(); !slices.Equal(got, want) || c.after && len(want) == 0 {
				t.Errorf("after the kill: listed %v, created %v", got, want)
			}
			if res := Run(t, "rfsd", args...); res.Code != 0 {
				t.Fatalf("exit %d: %s", res.Code, res.Stderr)
			}
			all := added()
			if got := listed(); !slices.Equal(got, all) || len(all) < 5 {
				t.Errorf("in the end: listed %v, created %v", got, all)
			}
			undo := append([]string{"undo", "--yes"}, at...)
			k.run(t, "DELETE /", 3, c.after, "rfsctl", undo...)
			if left := added(); len(left) == 0 || len(left) >= len(all) {
				t.Errorf("the undo was killed with %v left of %v", left, all)
			}
			if res := Run(t, "rfsctl", undo...); res.Code != 0 {
				t.Errorf("second undo: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			if left := added(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestUndoOfARunningSessionIsRefused holds a migration in its documents.
func TestUndoOfARunningSessionIsRefused(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	k := newKiller(t, n)
	args := targetArgs(k.URL, demoRepo(), "--initial-lease-duration", "5s", "--documents-per-bulk-request", "1")
	k.run(t, "POST /_bulk", 3, true, "rfsd", args...)
	before := onTarget(t, n)
	res := Run(t, "rfsctl", "undo", "--yes", "--target-host", n.URL)
	if res.Code != 4 || !strings.Contains(res.Stderr, "the session runs") {
		t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if after := onTarget(t, n); !slices.Equal(after, before) {
		t.Errorf("removed: before %v, after %v", before, after)
	}
}
