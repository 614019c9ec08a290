package e2e

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// triedSummary is what the tests read of the summary of a trial run or of a migration.
type triedSummary struct {
	Seconds float64 `json:"seconds"`
	Totals  struct{ Live, Indexed, Failed, Filtered int64 }
	Indices []struct {
		Index   string
		Targets []string
		Live    int64
	}
	Trial *struct {
		Rejected []struct {
			Index, Class string
			Documents    int64
		}
		Estimate *struct {
			Documents, Bytes int64
			Seconds          float64
			Least            float64 `json:"seconds_least"`
			Most             float64 `json:"seconds_most"`
			Fixed            float64 `json:"fixed_seconds"`
			Bound            string
			Cost             *struct{ Total float64 }
		}
	}
}

// classesTold returns how many documents a trial run reports as rejected, by index and class.
func classesTold(trial triedSummary) map[string]int64 {
	told := map[string]int64{}
	for _, r := range trial.Trial.Rejected {
		told[r.Index+" "+r.Class] = r.Documents
	}
	return told
}

// classesOf returns the same of a directory of failed documents.
func classesOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	var groups struct {
		Groups []struct {
			Index, Class string
			Count        int64
		}
	}
	failures := Run(t, "rfsctl", "failures", "--failed-documents", dir, "--output", "json")
	must(t, outputtest.Decode(failures.Stdout, &groups))
	came := map[string]int64{}
	for _, g := range groups.Groups {
		came[g.Index+" "+g.Class] += g.Count
	}
	return came
}

// sameClasses fails when a trial run reports other classes of failures than the migration in the directory had, or when there are some
// and should be none. It returns both.
func sameClasses(t *testing.T, trial triedSummary, dir string, some bool) (told, came map[string]int64) {
	t.Helper()
	told, came = classesTold(trial), classesOf(t, filepath.Join(dir, "failed"))
	if (len(came) > 0) != some || !slices.Equal(slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(came))) {
		t.Errorf("the trial run told of %v, the migration had %v", told, came)
	}
	return told, came
}

// trialArgs are those of a migration that is tried before; its failed documents go to the directory.
func trialArgs(t *testing.T, n *cluster.Node, source, dir, rules string, more ...string) []string {
	t.Helper()
	return targetArgs(n.URL, source, append([]string{"--rules", writeRules(t, rules), "--session-name", "move",
		"--failed-documents", filepath.Join(dir, "failed"), "--max-failed-documents", "unlimited"}, more...)...)
}

func triedOf(t *testing.T, res Result) triedSummary {
	t.Helper()
	var sum triedSummary
	if err := outputtest.Decode(res.Stdout, &sum); err != nil {
		t.Fatalf("exit %d: %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	return sum
}

const trialRules = `
[[index]]
match = "many-0"
set = [{ path = "/mappings/properties/bytes/type", value = "short" }]
[[document]]
match = "many-*"
where = { field = "level", equals = "DEBUG" }
leave-out = true
`

// TestATrialRunForetellsTheMigration compares a trial run with the migration of the same 200,000 documents, on the same node.
// Times are reported, not asserted: they depend on what else the machine does.
func TestATrialRunForetellsTheMigration(t *testing.T) {
	source, _ := manySource(t)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/rfsd-trial-foreign/_doc/1?refresh=true", map[string]any{"a": 1})
	theirs(t, n)
	before := onTarget(t, n)

	dir := t.TempDir()
	price := filepath.Join(dir, "price.toml")
	must(t, os.WriteFile(price, []byte("instance-per-hour = 3600\n"), 0o600))
	args := trialArgs(t, n, source, dir, trialRules)
	trial := triedOf(t, RunIn(t, dir, nil, "rfsd", append(slices.Clone(args), "--trial", "2000", "--price", price, "--trial-measure", "2s")...))
	if trial.Trial == nil || trial.Trial.Estimate == nil || trial.Trial.Estimate.Cost == nil || trial.Totals.Live != 16_000 {
		t.Fatalf("%+v", trial)
	}
	made := slices.DeleteFunc(onTarget(t, n), func(s string) bool { return slices.Contains(before, s) || strings.HasPrefix(s, "index .") })
	if slices.Sort(made); !slices.Equal(made, []string{"index rfsd-trial-many-0", "index rfsd-trial-many-1"}) {
		t.Errorf("the trial run made %v", made)
	}
	again := RunIn(t, dir, nil, "rfsd", append(slices.Clone(args), "--trial", "2000", "--trial-measure", "0s")...)
	if sum := triedOf(t, again); again.Code != 6 || sum.Totals != trial.Totals || sum.Trial == nil || sum.Trial.Estimate != nil {
		t.Errorf("again: exit %d, %+v", again.Code, sum.Totals)
	}

	begin := time.Now()
	res := RunIn(t, dir, nil, "rfsd", args...)
	took := time.Since(begin)
	whole := triedOf(t, res)
	if res.Code != 6 || whole.Totals.Live != manyDocuments {
		t.Fatalf("exit %d: %+v\n%s", res.Code, whole.Totals, res.Stderr)
	}
	told, came := sameClasses(t, trial, dir, true)
	e := trial.Trial.Estimate
	if off := float64(e.Documents)/manyDocuments - 1; off < -0.05 || off > 0.05 {
		t.Errorf("%d documents by the trial run, in truth %d", e.Documents, manyDocuments)
	}
	if math.Abs(e.Cost.Total-e.Seconds) > 1e-6 { // one a second
		t.Errorf("cost %v of %v s", e.Cost.Total, e.Seconds)
	}
	t.Logf("time: estimated %.1f s (bound by %s), in truth %.1f s (the whole command %.1f s): %+.0f %%; classes: estimated %v of 16,000, in truth %v of 200,000",
		e.Seconds, e.Bound, whole.Seconds, took.Seconds(), 100*(e.Seconds/whole.Seconds-1), told, came)

	migrated := onTarget(t, n)
	if res := RunIn(t, dir, nil, "rfsctl", "cleanup", "--trial", "--target-host", n.URL, "--session-name", "move"); res.Code != 1 || !strings.Contains(res.Stderr, "--yes removes") {
		t.Errorf("without --yes: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	gone := RunIn(t, dir, nil, "rfsctl", "cleanup", "--trial", "--yes", "--target-host", n.URL, "--session-name", "move")
	if gone.Code != 0 {
		t.Fatalf("cleanup: exit %d: %s%s", gone.Code, gone.Stdout, gone.Stderr)
	}
	want := slices.DeleteFunc(slices.Clone(migrated), func(s string) bool {
		return strings.HasPrefix(s, "index rfsd-trial-many-") || strings.Contains(s, "move-trial")
	})
	left := onTarget(t, n)
	slices.Sort(want)
	if slices.Sort(left); !slices.Equal(left, want) {
		t.Errorf("after the cleanup: %v, want %v", left, want)
	}
	noTrialState(t, n)
	if answer := call(t, n, "GET", "/many-*/_count", nil); fmt.Sprint(answer["count"]) != fmt.Sprint(whole.Totals.Indexed) {
		t.Errorf("the migrated indices hold %v documents, want %d", answer["count"], whole.Totals.Indexed)
	}
	if answer := call(t, n, "GET", "/rfsd-trial-foreign/_count", nil); fmt.Sprint(answer["count"]) != "1" {
		t.Errorf("the foreign index holds %v documents", answer["count"])
	}
	if res := RunIn(t, dir, nil, "rfsctl", "cleanup", "--trial", "--target-host", n.URL, "--session-name", "move"); res.Code != 1 {
		t.Errorf("a second cleanup: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// TestATrialRunThatWasKilledGoesOnOrGoes kills a trial run while it sends; foreign indices and sessions are refused.
func TestATrialRunThatWasKilledGoesOnOrGoes(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	theirs(t, n)
	index := demoIndex(t)
	foreign := "rfsd-trial-" + index
	cleanup := func() Result {
		return Run(t, "rfsctl", "cleanup", "--trial", "--yes", "--target-host", n.URL, "--session-name", "move")
	}
	argsTo := func(url string, more ...string) []string {
		return targetArgs(url, demo(t), append([]string{"--trial", "20", "--trial-measure", "1s", "--session-name", "move", "--documents-per-bulk-request", "5", "--initial-lease-duration", "10s"}, more...)...)
	}
	call(t, n, "PUT", "/"+foreign+"/_doc/1?refresh=true", map[string]any{"a": 1})
	before := onTarget(t, n)
	res := RunIn(t, t.TempDir(), nil, "rfsd", argsTo(n.URL)...)
	if res.Code != 1 || !strings.Contains(res.Stdout+res.Stderr, foreign) {
		t.Errorf("a foreign index: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := cleanup(); res.Code != 0 {
		t.Errorf("cleanup: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if left := onTarget(t, n); !sameNames(left, before) {
		t.Errorf("left %v, want %v", left, before)
	}
	call(t, n, "DELETE", "/"+foreign, nil)
	before = onTarget(t, n)

	for _, c := range []struct {
		ends, request string
		nth           int
		after         bool
	}{
		{"goes", "POST /_bulk", 3, true},
		{"continues", "POST /_bulk", 3, true},
		{"goes", "PUT /rfsd-trial-measure-", 1, true},
		{"continues", "DELETE /rfsd-trial-measure-", 1, false},
	} {
		k, ends := newKiller(t, n), c.ends+" after "+c.request
		k.run(t, c.request, c.nth, c.after, "rfsd", argsTo(k.URL)...)
		if strings.Contains(c.request, "measure") != slices.ContainsFunc(onTarget(t, n), func(s string) bool { return strings.HasPrefix(s, "index rfsd-trial-measure-") }) {
			t.Errorf("%s: on the target are %v", ends, onTarget(t, n))
		}
		if c.ends == "continues" {
			res := RunIn(t, t.TempDir(), nil, "rfsd", argsTo(n.URL)...)
			sum := triedOf(t, res)
			if res.Code != 0 || sum.Trial == nil || sum.Trial.Estimate == nil || sum.Totals.Indexed != sum.Totals.Live || sum.Totals.Live == 0 {
				t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			for _, x := range sum.Indices {
				answer := call(t, n, "GET", "/"+strings.Join(x.Targets, ",")+"/_count", nil)
				if fmt.Sprint(answer["count"]) != fmt.Sprint(x.Live) {
					t.Errorf("%s: %v documents, want %d", x.Index, answer["count"], x.Live)
				}
			}
		}
		deadline := time.Now().Add(90 * time.Second)
		res := cleanup()
		for res.Code == 4 && time.Now().Before(deadline) { // the lease of the killed process
			<-time.After(500 * time.Millisecond)
			res = cleanup()
		}
		if res.Code != 0 {
			t.Errorf("%s: cleanup: exit %d: %s%s", ends, res.Code, res.Stdout, res.Stderr)
		}
		if left := onTarget(t, n); !sameNames(left, before) {
			t.Errorf("%s: left %v, want %v", ends, left, before)
		}
		noTrialState(t, n)
	}

	// A migration that is named as a trial run is none.
	if res := Run(t, "rfsd", targetArgs(n.URL, demo(t), "--session-name", "move-trial", "--index-allowlist", index)...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	if res := cleanup(); res.Code != 1 || !strings.Contains(res.Stderr, "not a trial run") {
		t.Errorf("cleanup of a migration: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if answer := call(t, n, "GET", fmt.Sprintf("/%s/_count", index), nil); fmt.Sprint(answer["count"]) == "0" {
		t.Error("the migrated index is empty")
	}
}

// noTrialState fails when something is kept about a trial run.
func noTrialState(t *testing.T, n *cluster.Node) {
	t.Helper()
	var indices []struct{ Index string }
	must(t, n.JSON(t.Context(), "GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", nil, &indices))
	for _, x := range indices {
		if strings.Contains(x.Index, "move-trial") {
			t.Errorf("the state %s is left", x.Index)
		}
	}
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
