package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/s3server"
	"github.com/rfsd/rfsd/testing/truth"
)

// stateBucket starts an S3 server whose every answer takes delay, and returns the options that name a bucket of it.
func stateBucket(t *testing.T, delay time.Duration) []string {
	t.Helper()
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	server := s3server.Start(t, root).Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(delay)
		next.ServeHTTP(w, r)
	})
	server.Setenv(t)
	return []string{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-region", server.Region, "--coordinator-s3-endpoint", server.Endpoint,
		"--coordinator-s3-path-style", "--session-name", "shared"}
}

// exporter is a node that exports.
type exporter struct {
	cmd  *exec.Cmd
	said *bytes.Buffer
	end  chan error
}

func startExporter(t *testing.T, dir string, args ...string) *exporter {
	t.Helper()
	x := &exporter{cmd: exec.Command(Binary(t, "rfsd"), args...), said: &bytes.Buffer{}, end: make(chan error, 1)}
	x.cmd.Dir, x.cmd.Stderr = dir, x.said
	must(t, x.cmd.Start())
	var once sync.Once
	wait := func() { once.Do(func() { x.end <- x.cmd.Wait() }) }
	go wait()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		wait()
		if t.Failed() {
			t.Logf("%s\n%s", strings.Join(args, " "), x.said)
		}
	})
	return x
}

// TestThreeNodesExportWithTheirStateInABucket needs no cluster. One of the nodes is killed and started again. Together they write
// the documents of the snapshot's cluster, and the manifest lists the files.
func TestThreeNodesExportWithTheirStateInABucket(t *testing.T) {
	notShort(t)
	repo := demoRepo()
	want, err := truth.Load(true, repo+".ndjson.gz")
	must(t, err)
	stored, err := truth.LoadStored(repo)
	must(t, err)
	at := stateBucket(t, 20*time.Millisecond)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	start := func(name string) *exporter {
		own := filepath.Join(dir, name)
		must(t, os.MkdirAll(own, 0o755))
		return startExporter(t, own, slices.Concat([]string{"run", "--repo-uri", repo, "--snapshot-name", "snap1", "--export-dir", out, "--emit-doc-type", "ON",
			"--node-name", name, "--workers", "2", "--exit-when-done", "--initial-lease-duration", "10s", "--socket", "off", "--status-socket", "off"}, at)...)
	}
	nodes := []*exporter{start("n0"), start("n1"), start("n2")}
	finished := func() int {
		names, err := filepath.Glob(filepath.Join(out, "*", "*.ndjson"))
		must(t, err)
		return len(names)
	}
	until(t, "the first file is finished", func() bool { return finished() > 0 })
	must(t, nodes[1].cmd.Process.Kill())
	<-nodes[1].end
	nodes[1] = start("n1")
	for _, x := range nodes {
		select {
		case err := <-x.end:
			if err != nil {
				t.Errorf("a node ended with %v\n%s", err, x.said)
			}
		case <-time.After(3 * time.Minute):
			t.Fatal("a node does not end")
		}
	}
	got, err := truth.LoadExport(out)
	must(t, err)
	counts, faults := truth.Count("7.10.2-demo", want, stored, ignoreMeaninglessTypes(got))
	if faults != "" || len(counts) == 0 {
		t.Error(faults)
	}
	b, err := os.ReadFile(filepath.Join(out, export.ManifestName))
	must(t, err)
	m, err := export.ParseManifest(b)
	must(t, err)
	if !m.Complete || m.Documents != int64(len(got)) || len(m.Files) != finished() {
		t.Errorf("the manifest lists %d documents in %d files (complete: %v); there are %d in %d", m.Documents, len(m.Files), m.Complete, len(got), finished())
	}
	b, err = os.ReadFile(filepath.Join(out, "rfsd-mappings.json"))
	must(t, err)
	var mappings struct{ Indices map[string]json.RawMessage }
	must(t, json.Unmarshal(b, &mappings))
	if names := slices.Sorted(maps.Keys(mappings.Indices)); !slices.Equal(names, []string{"catalogue", "orders", "weblogs"}) {
		t.Errorf("the mappings are those of %q", names)
	}
	target := httptest.NewServer(fakecluster.New())
	defer target.Close()
	for _, args := range [][]string{{"import", "--create-indices"}, {"verify"}} {
		if res := RunIn(t, dir, nil, "rfsd", append(args, "--from", out, "--target-host", target.URL, "--coordinator-file", filepath.Join(dir, "import.db"))...); res.Code != 0 {
			t.Errorf("rfsd %v: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
		}
	}
	for _, args := range [][]string{{"status"}, {"items", "list"}, {"failures"}} {
		res := Run(t, "rfsctl", slices.Concat(args, at)...)
		if res.Code != 0 || args[0] != "failures" && !strings.Contains(res.Stdout, "weblogs") {
			t.Errorf("rfsctl %v: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
		}
	}
	if res := Run(t, "rfsctl", append([]string{"status"}, append(at[:len(at)-1:len(at)-1], "other")...)...); res.Code == 0 || !strings.Contains(res.Stderr, "no session of this name") {
		t.Errorf("status of a session that was never started: exit %d: %s", res.Code, res.Stderr)
	}
	t.Logf("%d documents in %d files", len(got), len(m.Files))
}

// TestProcessesImportWithTheirStateInABucket: the target keeps documents only.
func TestProcessesImportWithTheirStateInABucket(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	r := repository{name: "7.10.2-demo", path: demoRepo(), snapshot: "snap1", truth: []string{demoRepo() + ".ndjson.gz"}}
	out, exported, lines := exportOf(t, n, r)
	at := stateBucket(t, 0)
	var all []*exporter
	for i := range 3 {
		dir := t.TempDir()
		t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
		all = append(all, startExporter(t, dir, slices.Concat([]string{"run", "--from", out, "--target-host", n.URL, "--node-name", fmt.Sprint("n", i), "--workers", "2",
			"--window-size", "4096", "--exit-when-done", "--socket", "off", "--status-socket", "off"}, at)...))
	}
	for _, x := range all {
		if err := <-x.end; err != nil {
			t.Errorf("a node ended with %v\n%s", err, x.said)
		}
	}
	importArrived(t, n, r, exported, lines, 0)
	var indices []struct{ Index string }
	must(t, n.JSON(t.Context(), "GET", "/_cat/indices/.*?format=json&h=index&expand_wildcards=all", nil, &indices))
	for _, x := range indices {
		if strings.HasSuffix(x.Index, "_shared") {
			t.Errorf("the target has the index %s", x.Index)
		}
	}
	cleanedUp(t, at...)
}

// TestWhatFollowsAMigrationWithItsStateInABucket: worker processes migrate into a strict mapping, the documents that the bucket names
// as refused are sent again, the target is compared, and the session is removed. The target gets no index of rfsd.
func TestWhatFollowsAMigrationWithItsStateInABucket(t *testing.T) {
	const refused = 997
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir, at := fixture(t, "1.7.6-basic"), t.TempDir(), stateBucket(t, 0)
	call(t, n, "PUT", "/docs", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
	migrate := slices.Concat(targetArgs(n.URL, repo, "--failed-documents", filepath.Join(dir, "failed"), "--max-failed-documents", "unlimited"), at)
	planned := Run(t, "rfsd", append([]string{"plan", "--only", "access,limits"}, migrate[1:]...)...)
	var checks preflight.Report
	if err := outputtest.Decode(planned.Stdout, &checks); err != nil || planned.Code != 0 || !slices.ContainsFunc(checks.Checks, func(c preflight.Checked) bool {
		return c.Check == "clocks agree" && c.Level == preflight.Good && strings.Contains(c.Detail, "the coordination store")
	}) {
		t.Errorf("plan: exit %d, %v: %s%s", planned.Code, err, planned.Stdout, planned.Stderr)
	}
	if res := Run(t, "rfsctl", append([]string{"sessions"}, at[:len(at)-2]...)...); res.Code != 0 || strings.Contains(res.Stdout, "plan-") {
		t.Errorf("after the plan: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	codes := map[int]int{}
	for codes[3] == 0 {
		res := Run(t, "rfsd", append([]string{"worker"}, migrate[1:]...)...)
		if codes[res.Code]++; res.Code != 0 && res.Code != 3 || len(codes) > 9 {
			t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
	}
	if res := Run(t, "rfsctl", append([]string{"failures"}, at...)...); res.Code != 6 || !strings.Contains(res.Stdout, "strict_mapping") {
		t.Errorf("failures: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	// The fields that verify compares have the types of the snapshot.
	call(t, n, "PUT", "/docs/_mapping", map[string]any{"dynamic": true, "properties": map[string]any{
		"raw": map[string]any{"type": "object", "enabled": false}, "geo": map[string]any{"type": "geo_point"}, "price": map[string]any{"type": "double"},
		"tag": map[string]any{"type": "keyword"}, "ts": map[string]any{"type": "date"},
	}})
	redrive := slices.Concat([]string{"--target-host", n.URL, "--repo-uri", repo, "--index-allowlist", "docs", "--from-control-index"}, at)
	if r := redrives(t, 0, redrive...); r.Documents != refused || r.Indexed != refused || !r.Complete {
		t.Errorf("redrive: %+v", r)
	}
	if r := redrives(t, 0, redrive...); r.Documents != 0 {
		t.Errorf("a second redrive: %+v", r)
	}
	compareLanded(t, n, repo)
	if res, r := verified(t, dir, migrate); res.Code != 0 || r.State != verify.Equal {
		t.Errorf("verify: exit %d: %s%s", res.Code, notEqual(r), res.Stderr)
	}
	if res := Run(t, "rfsctl", append([]string{"cleanup"}, at...)...); res.Code != 0 || !strings.Contains(res.Stdout, "s3://bucket/state/shared/") {
		t.Errorf("cleanup: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := Run(t, "rfsctl", append([]string{"status"}, at...)...); res.Code != 1 || !strings.Contains(res.Stderr, "no session of this name") {
		t.Errorf("status after the cleanup: exit %d: %s", res.Code, res.Stderr)
	}
	var indices []struct{ Index string }
	must(t, n.JSON(t.Context(), "GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", nil, &indices))
	for _, x := range indices {
		if strings.HasPrefix(x.Index, ".rfs") || strings.HasPrefix(x.Index, ".migrations") {
			t.Errorf("the target has the index %s", x.Index)
		}
	}
}
