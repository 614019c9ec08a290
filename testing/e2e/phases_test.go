package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// phasesReport is what the tests of phases read of a summary.
type phasesReport struct {
	Complete bool
	Snapshot string
	Phases   []struct{ Phase, State, Error string }
	Indices  []struct {
		Index, State, Error string
		Targets, Created    []string
		Differs             []string
		Live, Indexed       int64
	}
	Events   []struct{ Subject, Code, Detail string }
	Problems []struct{ Index, Reason string }
}

func phasesOf(t *testing.T, r Result) phasesReport {
	t.Helper()
	var p phasesReport
	if err := outputtest.Decode(r.Stdout, &p); err != nil {
		t.Fatalf("summary: %v\nexit %d\nstdout: %s\nstderr: %s", err, r.Code, r.Stdout, r.Stderr)
	}
	return p
}

func demoRepo() string { return filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo") }

// demoIndices are the indices of the demo snapshot that have documents, by a dry run.
func demoIndices(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, x := range phasesOf(t, Run(t, "rfsd", "migrate", "--repo-uri", demoRepo(), "--snapshot-name", "snap1", "--discard", "--output", "json")).Indices {
		if x.Live > 0 {
			names = append(names, x.Index)
		}
	}
	if len(names) < 2 {
		t.Fatalf("only %v", names)
	}
	return names
}

func TestAnIndexThatTheTargetRefusesFailsAloneAndIsMendedByTheNextRun(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	bad := demoIndices(t)[0]
	// The target gives each new index of this name an alias that is taken.
	call(t, n, "PUT", "/_index_template/spoils", map[string]any{"index_patterns": []string{bad}, "priority": 1000, "template": map[string]any{"aliases": map[string]any{"taken": map[string]any{}}}})
	call(t, n, "PUT", "/taken", nil)
	t.Cleanup(func() {
		if _, err := n.Send(context.WithoutCancel(t.Context()), "DELETE", "/_index_template/spoils", "", nil); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	args := targetArgs(n.URL, demoRepo(), "--session-name", "spoiled")
	res := RunIn(t, dir, nil, "rfsd", args...)
	p := phasesOf(t, res)
	if res.Code != 7 || !p.Complete {
		t.Fatalf("exit %d, complete %v: %s", res.Code, p.Complete, res.Stderr)
	}
	for _, x := range p.Indices {
		switch {
		case x.Index == bad && (x.State != session.PhaseFailed || !strings.Contains(x.Error, "Invalid alias name [taken]") || x.Live != 0 || len(x.Created) != 0):
			t.Errorf("%+v", x)
		case x.Index != bad && (x.State != session.PhaseCompleted || x.Indexed != x.Live):
			t.Errorf("%+v", x)
		}
	}
	if len(p.Events) != 1 || p.Events[0].Subject != "index "+bad || p.Events[0].Code != "failed" {
		t.Errorf("events %+v", p.Events)
	}
	for _, problem := range p.Problems {
		if problem.Index != bad || !strings.Contains(problem.Reason, "alias") {
			t.Errorf("%+v", problem)
		}
	}
	// Repaired, the same command does the rest.
	call(t, n, "DELETE", "/_index_template/spoils", nil)
	call(t, n, "PUT", "/_index_template/spoils", map[string]any{"index_patterns": []string{"nothing-of-this-name"}})
	res = RunIn(t, dir, nil, "rfsd", args...)
	if res.Code != 0 {
		t.Fatalf("after the repair: exit %d: %s", res.Code, res.Stderr)
	}
	for _, x := range phasesOf(t, res).Indices {
		if x.State != session.PhaseCompleted || x.Indexed != x.Live || x.Live == 0 && x.Index == bad {
			t.Errorf("%+v", x)
		}
	}
	call(t, n, "DELETE", "/taken", nil)
	compareLanded(t, n, demoRepo())
}

func TestIndicesAndTemplatesOfTheTargetKeepEverySetting(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	name, changed := demoIndices(t)[0], demoIndices(t)[1]
	call(t, n, "PUT", "/_index_template/adds", map[string]any{"index_patterns": []string{changed}, "template": map[string]any{"settings": map[string]any{"refresh_interval": "19s"}}})
	call(t, n, "PUT", "/"+name, map[string]any{
		"settings": map[string]any{"index": map[string]any{"number_of_shards": 2, "refresh_interval": "17s", "number_of_replicas": 0}},
		"mappings": map[string]any{"dynamic": false, "_meta": map[string]any{"mine": true}},
		"aliases":  map[string]any{"mine": map[string]any{}},
	})
	call(t, n, "PUT", "/_index_template/mine", map[string]any{"index_patterns": []string{"mine-*"}, "version": 7})
	t.Cleanup(func() {
		for _, template := range []string{"mine", "adds"} {
			if _, err := n.Send(context.WithoutCancel(t.Context()), "DELETE", "/_index_template/"+template, "", nil); err != nil {
				t.Error(err)
			}
		}
	})
	before := []map[string]any{call(t, n, "GET", "/"+name, nil), call(t, n, "GET", "/_index_template/mine", nil)}
	res := Run(t, "rfsd", targetArgs(n.URL, demoRepo(), "--session-name", "kept")...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	after := []map[string]any{call(t, n, "GET", "/"+name, nil), call(t, n, "GET", "/_index_template/mine", nil)}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
	for _, x := range phasesOf(t, res).Indices {
		if created := len(x.Created) > 0; created != (x.Index != name) {
			t.Errorf("%+v", x)
		}
		if told := strings.Contains(strings.Join(x.Differs, " "), "refresh_interval"); told != (x.Index == changed) {
			t.Errorf("what the target's template added: %+v", x)
		}
	}
	compareLanded(t, n, demoRepo())
}

func TestWithoutThePhaseIndicesTheMissingFailAndNothingIsCreated(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	names := demoIndices(t)
	call(t, n, "PUT", "/"+names[0], map[string]any{"settings": map[string]any{"number_of_replicas": 0}, "mappings": map[string]any{"dynamic": false}})
	p := newProxy(t, n.URL, 0)
	res := Run(t, "rfsd", targetArgs(p.URL, demoRepo(), "--session-name", "documents-only", "--phases", "documents")...)
	r := phasesOf(t, res)
	if res.Code != 7 || !r.Complete {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	for _, x := range r.Indices {
		if x.Index == names[0] && x.Indexed != x.Live || x.Index != names[0] && !strings.Contains(x.Error, "does not exist on the target") {
			t.Errorf("%+v", x)
		}
	}
	for _, request := range p.answered(201, 200) {
		for _, name := range names {
			if strings.HasPrefix(request, "PUT /"+name) {
				t.Errorf("created: %s", request)
			}
		}
	}
	for index := range call(t, n, "GET", "/_settings?expand_wildcards=all", nil) {
		if !strings.HasPrefix(index, ".") && index != names[0] {
			t.Errorf("index %s is there", index)
		}
	}
}

// fiveWorkers starts five processes at once, again and again until no work is left. Lives of 30 ms and up to
// so much more end with a kill, until as many as wanted were killed.
func fiveWorkers(t *testing.T, dir string, args []string, wanted int64, more time.Duration) (kills int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var killed atomic.Int64
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for ctx.Err() == nil {
				life, end := context.WithCancel(ctx)
				if killed.Load() < wanted {
					life, end = context.WithTimeout(ctx, 30*time.Millisecond+rand.N(more))
				}
				_, ok, code := runWorker(life, t, dir, args)
				if life.Err() != nil && !ok && code == -1 {
					killed.Add(1)
				}
				end()
				switch {
				case ok && code == 3:
					return
				case ok && code != 0 && code != 2 && code != 4:
					t.Errorf("exit %d", code)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatalf("not finished in time after %d kills", killed.Load())
	}
	return killed.Load()
}

// TestFiveWorkersCreateEverythingOnce starts five processes at once, again and again until the
// work is done, and kills some at random. The request log of the target shows one creation per
// index.
func TestFiveWorkersCreateEverythingOnce(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, wanted := range []int64{0, 10} {
		t.Run(fmt.Sprintf("%d killed", wanted), func(t *testing.T) {
			wipe(t, n)
			p := newProxy(t, n.URL, 0)
			name := fmt.Sprint("five-", wanted)
			dir := t.TempDir()
			args := workerArgs(p.URL, demoRepo(), name, "--initial-lease-duration", "4s")
			coord := coordinator(t, n, name, 4*time.Second)
			killed := fiveWorkers(t, dir, args, wanted, 250*time.Millisecond)
			compareLanded(t, n, demoRepo())
			created := map[string]int{}
			for _, request := range p.answered(200) {
				if name, ok := strings.CutPrefix(request, "PUT /"); ok && !strings.ContainsAny(name, "/.") {
					created[name]++
				}
			}
			for _, name := range demoIndices(t) {
				// The answer to a process that was killed meanwhile is not in the log; the index is.
				if created[name] > 1 || created[name] == 0 && wanted == 0 {
					t.Errorf("index %s was created %d times: %v", name, created[name], created)
				}
			}
			for _, phase := range []string{session.MetadataPhase, session.IndexPhase, session.DocsPhase} {
				if r, err := session.PhasesOf(coord).Read(t.Context(), phase); err != nil || r.State != session.PhaseCompleted {
					t.Errorf("phase %s: %+v, %v", phase, r, err)
				}
			}
			for e, err := range session.List(t.Context(), coord, "event") {
				must(t, err)
				t.Errorf("event %s: %s", e.ID, e.Body)
			}
			t.Logf("%d killed, created %v", killed, slices.Sorted(maps.Keys(created)))
		})
	}
}

// TestWhatThePlanRefusesIsRefusedBeforeAnythingIsWritten gives two indices the same name, and uses a target that is too old for the
// options. No template and no index is created.
func TestWhatThePlanRefusesIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	rules := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(rules, []byte("[[rename-index]]\nmatch = \"regex:.*\"\nto = \"all\"\n"), 0o600))
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"one name for all", []string{"--rules", rules}, "would both become all"},
		{"mapping types", []string{"--emit-doc-type", "ON"}, "takes no mapping types"},
		{"no such index", []string{"--index-allowlist", "nothing"}, "no index nothing"},
	} {
		for _, command := range []string{"migrate", "worker"} {
			p := newProxy(t, n.URL, 0)
			args := append([]string{command, "--repo-uri", demoRepo(), "--snapshot-name", "snap1", "--target-host", p.URL, "--session-name", "refused"}, c.args...)
			res := Run(t, "rfsd", args...)
			if res.Code != 1 || !strings.Contains(res.Stderr, c.says) {
				t.Errorf("%s, %s: exit %d: %s", command, c.name, res.Code, res.Stderr)
			}
			for _, request := range p.answered(200, 201) {
				method, path, _ := strings.Cut(request, " ")
				if method != "GET" && method != "HEAD" && !strings.HasPrefix(path, "/.rfs") && !strings.HasPrefix(path, "/.migrations") && path != "/_aliases" && !strings.HasPrefix(path, "/_search") {
					t.Errorf("%s, %s: %s", command, c.name, request)
				}
			}
			wipe(t, n)
		}
	}
}

// TestLateAliasesAppearWithTheLastDocument creates the indices first: the alias does not exist until another run has migrated the
// documents.
func TestLateAliasesAppearWithTheLastDocument(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	args := targetArgs(n.URL, demoRepo(), "--session-name", "late", "--aliases", "late")
	if res := RunIn(t, dir, nil, "rfsd", append(args, "--phases", "metadata,indices")...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	if before := call(t, n, "GET", "/orders/_alias", nil); strings.Contains(fmt.Sprint(before), "sales") {
		t.Errorf("the alias is there before the documents: %v", before)
	}
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 || strings.Contains(res.Stdout, "aliases_wait") {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stderr, res.Stdout)
	}
	if after := call(t, n, "GET", "/orders/_alias", nil); !strings.Contains(fmt.Sprint(after), "sales") {
		t.Errorf("no alias: %v", after)
	}
}
