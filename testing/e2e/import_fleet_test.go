package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestThreeNodesImportAnExportWhileTheyAreKilled runs an import as the task of a fleet: nodes and workers are killed, one node knows target
// and session only, one is drained. Everything arrives once and all nodes report the same.
func TestThreeNodesImportAnExportWhileTheyAreKilled(t *testing.T) {
	m := layMachines(t, slowStart)
	r := repository{name: "7.10.2-demo", path: m.repo, snapshot: "snap1", truth: []string{m.repo + ".ndjson.gz"}}
	out, exported, lines := exportOf(t, m.node, r)
	m.task = []string{"--from", out, "--documents-per-bulk-request", "1", "--max-connections", "1", "--window-lease", "5s", "--window-size", "2048", "--create-indices"}
	m.all[2].late = true
	for _, x := range m.all {
		m.start(x)
		until(t, "the node states how far the import is", func() bool { _, ok := m.ask(x); return ok })
	}
	if res := Run(t, "rfsctl", "cleanup", "--target-host", m.node.URL, "--session-name", "fleet"); res.Code != 1 || !strings.Contains(res.Stderr, "is not complete") {
		t.Errorf("cleanup of an import in progress: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	m.drainOne()
	m.proxy.delay.Store(int64(100 * time.Millisecond))
	kills, next := 0, time.Now()
	reports := m.complete(func() {
		if kills == 4 || time.Now().Before(next) {
			return
		}
		kills++
		next = time.Now().Add(2 * time.Second)
		x := m.all[kills%len(m.all)]
		if kills%2 == 0 {
			m.killWorker(x)
			return
		}
		must(t, x.cmd.Process.Kill())
		_ = x.cmd.Wait()
		m.start(x)
	})
	importArrived(t, m.node, r, exported, lines, 0)
	for _, r := range reports {
		x, first := r.Migration, reports[0].Migration
		if x.Totals != first.Totals || x.Totals.Indexed != int64(len(lines)) || x.Totals.ItemsBad != 0 || x.Totals.BytesDone != x.Totals.Bytes {
			t.Errorf("%s states %+v, the export has %d documents", r.Node.Name, x.Totals, len(lines))
		}
		if len(x.Phases) != 1 || x.Phases[0].Name != "import" || x.Phases[0].State != "COMPLETED" {
			t.Errorf("%s states %+v", r.Node.Name, x.Phases)
		}
	}
	if kills == 0 {
		t.Error("no process was killed")
	}
	t.Logf("%d documents in %d windows, %d kills, %d bulk requests", len(lines), reports[0].Migration.Totals.Items, kills, m.proxy.bulks.Load())
}

// exportOf makes the indices of a snapshot on a node and exports its documents.
func exportOf(t *testing.T, n *cluster.Node, r repository) (out string, exported summary, lines truth.Docs) {
	t.Helper()
	dir := t.TempDir()
	out = filepath.Join(dir, "out")
	run := func(more ...string) Result {
		t.Helper()
		res := RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--repo-uri", r.path, "--snapshot-name", r.snapshot, "--output", "json"}, more...)...)
		if res.Code != 0 {
			t.Fatalf("%v: exit %d: %s", more, res.Code, res.Stderr)
		}
		return res
	}
	run("--target-host", n.URL, "--phases", "metadata,indices")
	exported = parseSummary(t, run("--export-dir", out))
	lines, err := truth.LoadExport(out)
	must(t, err)
	return out, exported, lines
}

// TestOneNodeImportsWithItsStateInAFile is the same task for a node alone: a configuration file, state in a file, workers inside.
func TestOneNodeImportsWithItsStateInAFile(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := demoRepo()
	r := repository{name: "7.10.2-demo", path: repo, snapshot: "snap1", truth: []string{repo + ".ndjson.gz"}}
	out, exported, lines := exportOf(t, n, r)
	dir := t.TempDir()
	config := filepath.Join(dir, "n.toml")
	text := fmt.Sprintf("[import]\nfrom = '%s'\nwindow-size = 4096\ncreate-indices = true\n[target]\ntarget-host = '%s'\n[coordination]\ncoordinator-file = '%s'\n"+
		"[daemon]\nworkers = 3\nexit-when-done = true\n", out, n.URL, filepath.Join(dir, "state.db"))
	must(t, os.WriteFile(config, []byte(text), 0o600))
	for _, name := range []string{"first", "again"} {
		if res := RunIn(t, dir, nil, "rfsd", "run", "--config", config); res.Code != 0 {
			t.Fatalf("%s: exit %d: %s", name, res.Code, res.Stderr)
		}
		importArrived(t, n, r, exported, lines, 0)
	}
	for args, says := range map[string]string{"--repo-uri=/x": "--repo-uri", "--rules=/x": "--rules", "--phases=documents": "--phases"} {
		if res := RunIn(t, dir, nil, "rfsd", "run", "--config", config, args); res.Code != 1 || !strings.Contains(res.Stderr, says+" has no meaning") {
			t.Errorf("%s: exit %d: %s", args, res.Code, res.Stderr)
		}
	}
	cleanedUp(t, "--coordinator-file", filepath.Join(dir, "state.db"))
}

// cleanedUp removes what is kept about a session that is complete, which needs no --force, and makes sure that it is gone.
func cleanedUp(t *testing.T, at ...string) {
	t.Helper()
	if res := Run(t, "rfsctl", append([]string{"cleanup"}, at...)...); res.Code != 0 || !strings.Contains(res.Stdout, "remov") {
		t.Errorf("cleanup: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := Run(t, "rfsctl", append([]string{"status"}, at...)...); res.Code != 1 {
		t.Errorf("status after the cleanup: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// killWorker kills a worker of a node that has work, if there is one.
func (m *machines) killWorker(x *machine) {
	m.t.Helper()
	r, ok := m.ask(x)
	if !ok {
		return
	}
	at := slices.IndexFunc(r.Workers, func(w status.Worker) bool { return w.State == "working" && w.PID > 0 })
	if at >= 0 {
		_ = syscall.Kill(r.Workers[at].PID, syscall.SIGKILL) // it may have ended
	}
}
