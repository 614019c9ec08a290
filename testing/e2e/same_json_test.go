package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestTheSameCommandGivesTheSameJSON asks a running daemon, and the store of its migration: while it is paused, with items of
// several states, refused documents and events, both answer the same.
func TestTheSameCommandGivesTheSameJSON(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	for _, name := range []string{"orders", "catalogue"} { // refuse all documents
		call(t, n, "PUT", "/"+name, map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
	}
	p := newProxy(t, n.URL, 100*time.Millisecond)
	dir := t.TempDir()
	socket := filepath.Join(dir, "operator.sock")
	cmd := exec.Command(Binary(t, "rfsd"), "run", "--target-host", p.URL, "--repo-uri", demo(t), "--snapshot-name", "snap1", "--session-name", "same",
		"--existing-documents", "overwrite", "--max-failed-documents", "unlimited", "--workers", "2", "--max-connections", "1", "--documents-per-bulk-request", "1",
		"--disable-compression", "--failed-documents", filepath.Join(dir, "failed"), "--first", "orders", "--socket", socket)
	var said lockedBuffer
	cmd.Dir, cmd.Stderr = dir, &said
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	node, store := []string{"--node", socket}, []string{"--target-host", n.URL, "--session-name", "same"}
	ask := func(from []string, into any, args ...string) {
		t.Helper()
		res := RunIn(t, dir, nil, "rfsctl", append(append(args, "--output", "json"), from...)...)
		if err := outputtest.Decode(res.Stdout, into); err != nil {
			t.Fatalf("%v, exit %d: %s%s", err, res.Code, res.Stdout, res.Stderr)
		}
	}
	statusOf := func(from []string) (r status.Report) {
		t.Helper()
		ask(from, &r, "status")
		return r
	}
	until(t, "the daemon answers", func() bool { return RunIn(t, dir, nil, "rfsctl", append([]string{"status"}, node...)...).Stdout != "" })
	until(t, "documents are refused and indexed", func() bool {
		r := statusOf(store)
		return r.Migration != nil && r.Migration.Totals.Failed > 0 && r.Migration.Totals.ItemsOpen > 0 && p.documents.Load() > 20
	})
	if res := RunIn(t, dir, nil, "rfsctl", append([]string{"pause"}, node...)...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	until(t, "no worker has a lease, and the daemon has read it", func() bool {
		at, of := statusOf(node), statusOf(store)
		return at.Node.Running == 0 && of.Migration.Totals.Leased == 0 && asJSON(t, at.Migration.Totals) == asJSON(t, of.Migration.Totals) && at.Migration.Intent.State == "pause"
	})
	for _, args := range [][]string{{"items", "list"}, {"items", "list", "--state", "open", "--index", "weblogs"}, {"report"}, {"failures"}, {"failures", "--index", "orders"}} {
		until(t, "both answer the same to "+strings.Join(args, " "), func() bool {
			var at, of map[string]any
			ask(node, &at, args...)
			ask(store, &of, args...)
			return len(of) > 0 && asJSON(t, timeless(at)) == asJSON(t, timeless(of))
		})
	}
	var items status.ItemList
	ask(store, &items, "items", "list")
	var failures status.Failures
	ask(node, &failures, "failures")
	if items.Total < 4 || items.States[status.Open] == 0 || len(failures.Documents) == 0 || int64(len(failures.Documents)) != items.Totals.Failed {
		t.Errorf("%+v, %d refused documents", items, len(failures.Documents))
	}
	var at, of status.Item
	ask(node, &at, "items", "show", items.Items[0].ID)
	ask(store, &of, "items", "show", items.Items[0].ID)
	if asJSON(t, at) != asJSON(t, of) || at.ID == "" {
		t.Errorf("%+v, %+v", at, of)
	}
	if a, b := statusOf(node), statusOf(store); asJSON(t, timeless(object(t, a.Migration))) != asJSON(t, timeless(object(t, b.Migration))) {
		t.Errorf("%s\n%s", asJSON(t, a.Migration), asJSON(t, b.Migration))
	}
}

// timeless leaves out when the store was read.
func timeless(v map[string]any) map[string]any {
	delete(v, "read_at")
	if m, ok := v["migration"].(map[string]any); ok {
		delete(m, "read_at")
	}
	return v
}

func object(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	must(t, json.Unmarshal([]byte(asJSON(t, v)), &m))
	return m
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	must(t, err)
	return string(b)
}
