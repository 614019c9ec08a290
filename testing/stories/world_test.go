// Package stories runs whole sequences of commands of rfsd and rfsctl, and of an application that writes to the target meanwhile,
// against a fake cluster in memory. A model knows after each step which documents the target must hold and which exit codes a command may give.
package stories

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rfsd-stories-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // only temporary files
		programs = dir
		build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/rfsd", "./cmd/rfsctl")
		// As testing/e2e builds them, so that both share what is compiled.
		build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// fixture is the snapshot that every story migrates, which has the indices catalogue (6 documents),
// orders (53, with a routing and the alias sales, in two shards) and weblogs (100).
var fixture = sync.OnceValues(func() (string, error) { return filepath.Abs("../fixtures/7.10.2-demo") })

type docs = map[fakecluster.Key]string

// snapshot returns the documents of the fixture, as its cluster held them.
var snapshot = sync.OnceValues(func() (docs, error) {
	name, err := fixture()
	if err != nil {
		return nil, err
	}
	all, err := truth.Load(false, name+".ndjson.gz")
	out := docs{}
	for k, source := range all {
		out[fakecluster.Key{Index: k.Index, ID: k.ID, Routing: k.Routing}] = string(source)
	}
	return out, err
})

// world is a cluster, the files of an operator, and what the model knows of both.
type world struct {
	t       testing.TB
	cluster target
	url     string

	repository string
	dir        string // in which the commands run
	model      model

	victim atomic.Pointer[victim]
	loss   atomic.Pointer[func() bool] // called before each refresh of a target index, until it returns true
	tale   []string                    // the steps so far
}

// victim is a process that dies at a request.
type victim struct {
	process *os.Process
	at      int64 // number of the request
	after   bool  // the request has its effect first
	begun   atomic.Int64
	ended   atomic.Int64
	died    atomic.Bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, cluster: newTarget(t), dir: t.TempDir()}
	all, err := snapshot()
	if err != nil {
		t.Fatal(err)
	}
	w.model = newModel(all)
	if w.repository, err = fixture(); err != nil {
		t.Fatal(err)
	}
	dies := func(after bool) func(*http.Request) error {
		return func(r *http.Request) error {
			if lose := w.loss.Load(); !after && strings.HasSuffix(r.URL.Path, "/_refresh") && lose != nil && w.loss.CompareAndSwap(lose, nil) && !(*lose)() {
				w.loss.Store(lose)
			}
			v := w.victim.Load()
			if v == nil {
				return nil
			}
			count := &v.begun
			if after {
				count = &v.ended
			}
			if n := count.Add(1); !v.died.Load() && (n < v.at || v.after != after) {
				return nil
			}
			v.died.Store(true)
			_ = v.process.Kill()
			return errors.New("the process is dead")
		}
	}
	w.cluster.Watch(dies(false), dies(true))
	server := httptest.NewServer(w.cluster)
	t.Cleanup(server.Close)
	w.url = server.URL
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the story:\n%s", strings.Join(w.tale, "\n"))
		}
	})
	return w
}

// result is what a command left behind.
type result struct {
	code   int // -1: it was killed
	output string
}

// run executes a command to its end, or until it is killed.
func (w *world) run(k kill, name string, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "XDG_STATE_HOME="+w.dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, time.Second
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	if k.at > 0 {
		w.victim.Store(&victim{process: cmd.Process, at: int64(k.at), after: k.after})
		defer w.victim.Store(nil)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		w.t.Fatalf("%s %s does not end:\n%s", name, strings.Join(args, " "), output.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s: %v", name, err)
	}
	return result{cmd.ProcessState.ExitCode(), output.String()}
}

// source returns the options of commands that read the snapshot.
func (w *world) source() []string {
	return []string{"--repo-uri", w.repository, "--snapshot-name", "snap1"}
}

// at returns the options that every command of a session has.
func (w *world) at(session string) []string {
	return []string{"--target-host", w.url, "--session-name", session, "--coordinator-file", filepath.Join(w.dir, session+".db")}
}

// kill is when a process dies: at that of its requests, from 1, before the request has its effect or after it. The zero value: never.
type kill struct {
	at    int
	after bool
}

// command runs a command of a session, checks that its exit code is one of want and returns it; -1: the process was killed.
func (w *world) command(k kill, session string, want []int, name, verb string, more ...string) int {
	w.t.Helper()
	args := append([]string{verb}, append(w.at(session), more...)...)
	r := w.run(k, name, args...)
	w.tell("%s %s of session %s %s: exit %d", name, verb, session, strings.Join(more, " "), r.code)
	if r.code == -1 && k.at > 0 {
		return -1
	}
	if !slices.Contains(want, r.code) {
		w.t.Errorf("%s %s of session %s: exit %d, want %v:\n%s", name, verb, session, r.code, want, r.output)
	}
	for _, bad := range []string{"goroutine ", "panic:"} {
		if strings.Contains(r.output, bad) {
			w.t.Errorf("%s %s: %s in the output:\n%s", name, verb, bad, r.output)
		}
	}
	return r.code
}

// tell adds a line to the story.
func (w *world) tell(format string, args ...any) {
	w.tale = append(w.tale, fmt.Sprintf("%3d %s", len(w.tale)+1, fmt.Sprintf(format, args...)))
}

// step does one step and checks what came of it.
func (w *world) step(s step) {
	w.t.Helper()
	w.model.now++
	s(w)
	w.check()
}

// sameValue reports whether two documents differ in spaces, in the order of fields and in the notation of numbers only.
func sameValue(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// check compares the target with the model.
func (w *world) check() {
	w.t.Helper()
	if unknown := w.cluster.Unknown(); len(unknown) > 0 {
		w.t.Fatalf("the fake cluster does not know these requests:\n%s", strings.Join(unknown, "\n"))
	}
	if w.model.open {
		return // a killed process left something between before and after
	}
	got, want := w.cluster.Documents(), w.model.docs
	var wrong []string
	for _, k := range sorted(want) {
		x := w.model.indices[k.Index]
		if is, there := got[k]; !there || is != want[k] && !(x != nil && x.piped && sameValue(is, want[k])) {
			wrong = append(wrong, fmt.Sprintf("%s/%s is %q, want %q", k.Index, k.ID, is, want[k]))
		}
	}
	for _, k := range sorted(got) {
		if _, expected := want[k]; !expected {
			wrong = append(wrong, fmt.Sprintf("%s/%s is there: %.60q", k.Index, k.ID, got[k]))
		}
	}
	if len(wrong) > 0 {
		w.t.Errorf("%d documents, want %d; %d are wrong, such as %s", len(got), len(want), len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "))
	}
	if got, want := w.cluster.Indices(), slices.Sorted(maps.Keys(w.model.indices)); !slices.Equal(got, want) {
		w.t.Errorf("indices %q, want %q", got, want)
	}
}

// sorted returns the keys of documents in order.
func sorted(all docs) []fakecluster.Key {
	return slices.SortedFunc(maps.Keys(all), func(a, b fakecluster.Key) int {
		return cmp.Or(strings.Compare(a.Index, b.Index), strings.Compare(a.ID, b.ID), strings.Compare(a.Routing, b.Routing))
	})
}
