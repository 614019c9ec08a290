package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/browser"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// timed runs a program to its end and returns its duration and its peak memory.
func timed(t *testing.T, what string, name string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, name), args...)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%s: %.1f s, %.1f s of CPU, at most %d MB", what, time.Since(begin).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), peak(cmd)>>20)
	if peak(cmd) > 512<<20 {
		t.Errorf("%s took %d MB", what, peak(cmd)>>20)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// peak returns the largest resident size of a process that has ended, in bytes.
func peak(cmd *exec.Cmd) int64 {
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}

// many skips what takes minutes.
func many(t *testing.T) {
	t.Helper()
	if os.Getenv("RFSD_TEST_FLEET") == "" {
		t.Skip("takes minutes and several GB of memory: RFSD_TEST_FLEET=1 runs it")
	}
}

// TestASnapshotOfTwoThousandIndices plans 2,000 indices with 5,000 shards, migrates 300 of them into a real cluster, and exports all
// of them while they are listed by rfsctl and on the page.
func TestASnapshotOfTwoThousandIndices(t *testing.T) {
	many(t)
	m := multiply(t, 750, 1250)
	t.Run("planned", func(t *testing.T) { manyPlanned(t, m) })
	t.Run("in part into a cluster", func(t *testing.T) { manyInPart(t, m) })
	t.Run("exported", func(t *testing.T) { allOnThePage(t, m) })
}

// snapshot returns the options that name it.
func (m *multiplied) snapshot(more ...string) []string {
	return append([]string{"--repo-uri", m.repo, "--snapshot-name", "snap1"}, more...)
}

func manyPlanned(t *testing.T, m *multiplied) {
	if res := timed(t, "rfsctl snapshot list", "rfsctl", "snapshot", "list", "--repo-uri", m.repo); !regexp.MustCompile(`2,000 +5,000`).MatchString(res.Stdout) {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
	if res := timed(t, "rfsctl snapshot show", "rfsctl", append([]string{"snapshot", "show"}, m.snapshot()...)...); strings.Count(res.Stdout, "\n") < m.shards {
		t.Errorf("%d lines: %s", strings.Count(res.Stdout, "\n"), res.Stderr)
	}
	if res := timed(t, "rfsd plan --only sizes", "rfsd", append([]string{"plan"}, m.snapshot()...)...); res.Code != 0 || !regexp.MustCompile(`total +5,000`).MatchString(res.Stdout) {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
}

// manyInPart plans all indices against a cluster that takes 1,000 shards, and migrates 700.
func manyInPart(t *testing.T, m *multiplied) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	target := m.snapshot("--target-host", n.URL)
	if res := timed(t, "rfsd plan", "rfsd", append([]string{"plan"}, target...)...); res.Code != 7 || !strings.Contains(res.Stdout, "wide-0749") || !strings.Contains(res.Stdout, "cluster.max_shards_per_node") {
		t.Errorf("exit %d: %.2000s%s", res.Code, res.Stdout, res.Stderr)
	}
	part := []string{"--index-allowlist", "wide-00*", "--index-allowlist", "narrow-00*", "--index-allowlist", "narrow-01*", "--session-name", "part"}
	res := timed(t, "rfsd migrate of 300 indices with 700 shards", "rfsd", slices.Concat([]string{"migrate", "--output", "json"}, target, part)...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %.3000s", res.Code, res.Stderr)
	}
	// A scroll over so many shards would read a part of them only.
	if got, want := documentsIn(t, n, "wide-*,narrow-*"), int64(m.documents(100, 200)); got != want {
		t.Errorf("%d documents arrived, want %d", got, want)
	}
	var r status.Report
	res = timed(t, "rfsctl status of 300 indices", "rfsctl", "status", "--target-host", n.URL, "--session-name", "part", "--output", "json")
	if err := outputtest.Decode(res.Stdout, &r); err != nil || len(r.Migration.Indices) != 300 || r.Migration.Totals.Shards != 700 || !r.Migration.Complete {
		t.Errorf("exit %d, %v: %.2000s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	wipe(t, n)
}

// allOnThePage exports a snapshot with a daemon, while rfsctl and the page list every shard of it.
func allOnThePage(t *testing.T, m *multiplied) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir := t.TempDir()
	reader := filepath.Join(dir, "status")
	cmd := exec.CommandContext(ctx, Binary(t, "rfsd"), slices.Concat([]string{"run", "--export-dir", filepath.Join(dir, "out"), "--workers", "4", "--socket", filepath.Join(dir, "operator"),
		"--status-socket", reader, "--failed-documents", filepath.Join(dir, "failed"), "--log-level", "error"}, m.snapshot())...)
	said := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr, cmd.Dir = said, said, dir
	begin := time.Now()
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(t, "the node answers", func() bool { _, err := os.Stat(reader); return err == nil })
	var r status.Report
	ask := func() bool {
		r = status.Report{}
		res := Run(t, "rfsctl", "status", "--node", reader, "--output", "json")
		return outputtest.Decode(res.Stdout, &r) == nil && r.Migration != nil
	}
	for !(ask() && r.Migration.Seeded && r.Migration.Totals.Shards == int64(m.shards)) {
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("not planned: %+v\n%s", r, said.String())
		}
		time.Sleep(time.Second)
	}
	t.Logf("rfsd run: %d shards of %d indices are planned after %.1f s", r.Migration.Totals.Shards, len(r.Migration.Indices), time.Since(begin).Seconds())
	timed(t, "rfsctl status of 2,000 indices, from a node", "rfsctl", "status", "--node", reader)
	if res := timed(t, "rfsctl items list of 5,000 items, from a node", "rfsctl", "items", "list", "--node", reader); strings.Count(res.Stdout, "\n") < m.shards {
		t.Errorf("%d lines: %.1000s%s", strings.Count(res.Stdout, "\n"), res.Stdout, res.Stderr)
	}
	b, err := browser.Start(ctx)
	switch {
	case errors.Is(err, browser.ErrNone):
		t.Log("the page was not looked at: ", err)
	case err != nil:
		t.Error(err)
	default:
		defer b.Close()
		page := begun(t, "rfsctl", "page", "--no-browser", "--node", reader)
		address := regexp.MustCompile(`http://[0-9a-f]{32}\.localhost:\d+/\?token=[0-9a-f]{64}`)
		until(t, "rfsctl tells the address", func() bool { return address.MatchString(page.String()) })
		opened := time.Now()
		must(t, b.Look(ctx, 1280, 1350, false))
		must(t, b.Open(ctx, address.FindString(page.String())))
		must(t, b.Wait(ctx, "document.querySelectorAll('.shard').length > 0 && !document.getElementById('more').hidden"))
		t.Logf("the page shows its first indices %.1f s after it was opened", time.Since(opened).Seconds())
		for more := true; more; {
			must(t, b.Eval(ctx, "(() => { const more = document.getElementById('more'); if (!more.hidden) (more.querySelector('button') || more).click(); return !more.hidden; })()", &more))
		}
		must(t, b.Wait(ctx, fmt.Sprintf("document.querySelectorAll('.shard').length === %d", m.shards)))
		t.Logf("and all %d shards after %.1f s", m.shards, time.Since(opened).Seconds())
		for _, kind := range []string{"Runtime.exceptionThrown", "Log.entryAdded"} {
			for _, e := range b.Events(kind) {
				t.Errorf("%s: %s", kind, e.Params)
			}
		}
	}
	for begin := time.Now(); !(ask() && r.Migration.Complete); time.Sleep(time.Second) {
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("%+v\n%s", r.Migration.Totals, said.String())
		}
	}
	took := time.Since(begin)
	if x := r.Migration.Totals; x.Indexed != int64(m.documents(len(m.wide), len(m.narrow))) || x.Failed+x.ItemsBad != 0 {
		t.Errorf("%+v", x)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	t.Logf("rfsd run: %d shards exported in %.1f s, at most %d MB", m.shards, took.Seconds(), peak(cmd)>>20)
	if peak(cmd) > 512<<20 {
		t.Errorf("the daemon took %d MB", peak(cmd)>>20)
	}
}

// begun starts a program that runs until the test ends, and returns a buffer that receives its standard output.
func begun(t *testing.T, name string, args ...string) *lockedBuffer {
	t.Helper()
	return begin(t, func(c *exec.Cmd, said *lockedBuffer) { c.Stdout = said }, name, args...)
}

// available returns how much memory new processes may take, in bytes.
func available(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	must(t, err)
	m := regexp.MustCompile(`MemAvailable: +(\d+) kB`).FindSubmatch(b)
	if m == nil {
		t.Skip("the free memory is unknown")
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	must(t, err)
	return kb << 10
}

// TestTwoHundredWorkersShareAThousandShards: 200 processes of rfsd worker, all at the same time, create 200 indices and migrate 1,000
// shards into a real cluster. A process that has ended is followed by another one until nothing is left.
func TestTwoHundredWorkersShareAThousandShards(t *testing.T) {
	many(t)
	const processes, indices, each = 200, 200, 64 << 20
	if free := available(t); free < processes*each+2<<30 {
		t.Skipf("%d MB of memory are free, %d processes may take %d MB", free>>20, processes, processes*each>>20)
	}
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	m := multiply(t, indices, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir, program := t.TempDir(), Binary(t, "rfsd")
	args := []string{"worker", "--repo-uri", m.repo, "--snapshot-name", "snap1", "--target-host", n.URL, "--session-name", "crowd", "--shards", "*=1", "--replicas", "0",
		"--max-connections", "1", "--log-level", "error", "--failed-documents", filepath.Join(dir, "failed"), "--unavailable-timeout", "2m"}
	var mu sync.Mutex
	codes, largest, started, said := map[int]int{}, int64(0), 0, ""
	var lastItem time.Duration // when the last item was done
	begin := time.Now()
	var crowd sync.WaitGroup
	for range processes {
		crowd.Go(func() {
			for ctx.Err() == nil {
				var stderr bytes.Buffer
				cmd := exec.CommandContext(ctx, program, args...)
				cmd.Dir, cmd.Stderr = dir, &stderr
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
				err := cmd.Run()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Error(err)
					return
				}
				code := cmd.ProcessState.ExitCode()
				mu.Lock()
				codes[code]++
				started++
				largest = max(largest, peak(cmd))
				if code == 0 {
					lastItem = time.Since(begin)
				}
				if code != 0 && code != 3 && code != 4 && said == "" {
					said = stderr.String()
				}
				mu.Unlock()
				switch code {
				case 0:
				case 4: // all that is left is leased
					time.Sleep(15 * time.Second) // as a supervisor does
				default: // nothing is left, or an error that is reported below
					return
				}
			}
		})
	}
	crowd.Wait()
	took := time.Since(begin)
	if ctx.Err() != nil {
		t.Errorf("not done after %v", took)
	}
	for code := range codes {
		if code != 0 && code != 3 && code != 4 {
			t.Errorf("%d processes ended with %d: %s", codes[code], code, said)
			break
		}
	}
	var list status.ItemList
	res := Run(t, "rfsctl", "items", "list", "--target-host", n.URL, "--session-name", "crowd", "--output", "json")
	if err := outputtest.Decode(res.Stdout, &list); err != nil || list.Total != m.shards || list.States[status.Done] != m.shards {
		t.Fatalf("exit %d, %v: %d items, %v: %s", res.Code, err, list.Total, list.States, res.Stderr)
	}
	holders, again := map[string]int{}, 0
	for _, x := range list.Items {
		holders[x.Holder]++
		if x.Attempts > 1 {
			again++
		}
	}
	if got, want := len(landed(t, n)), m.documents(indices, 0); got != want {
		t.Errorf("%d documents arrived, want %d", got, want)
	}
	t.Logf("%d processes immediately, %d in all, %d shards of %d indices in %.1f s, the last item done after %.1f s: exit codes %v, at most %d MB each, %d items leased more than once, most of one holder %d",
		processes, started, m.shards, indices, took.Seconds(), lastItem.Seconds(), codes, largest>>20, again, slices.Max(slices.Collect(maps.Values(holders))))
}
