package e2e

import (
	"bytes"
	"cmp"
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

// killer stands before a node and kills a process at a request, before or after the node does it.
type killer struct {
	*httptest.Server
	mu      sync.Mutex
	victim  *exec.Cmd
	request string // "PUT /_template/": method and the beginning of the path; those to rfsd's own indices do not count
	nth     int
	after   bool
	seen    int
	state   string // directory that the processes share; "": each has one of its own
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
	own := slices.ContainsFunc([]string{"/.rfs", "/.migrations", "/_search"}, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) })
	own = own || r.URL.Query().Has("require_alias") // records by _bulk
	if k.victim == nil || own || !strings.HasPrefix(r.Method+" "+r.URL.Path, k.request) {
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
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+cmp.Or(k.state, t.TempDir()))
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
			listed := func() []string {
				return withoutAliases(createdOf(t, Run(t, "rfsctl", append([]string{"created"}, at...)...)))
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
	theirs(t, n)
	k := newKiller(t, n)
	args := targetArgs(k.URL, demoRepo(), "--initial-lease-duration", "2m", "--documents-per-bulk-request", "1")
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
