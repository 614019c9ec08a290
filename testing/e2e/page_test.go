package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/browser"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// wide is a cluster's snapshot of 20 indices of 5 shards each; it gives the repository and the number of documents.
func wide(t *testing.T, n *cluster.Node) (repo string, documents int) {
	t.Helper()
	wipe(t, n)
	repo = repositoryOn(t, n)
	var bulk bytes.Buffer
	for i := range 20 {
		name := fmt.Sprintf("logs-2026-%02d", i+1)
		call(t, n, "PUT", "/"+name, map[string]any{"settings": map[string]any{"number_of_shards": 5, "number_of_replicas": 0}})
		for k := range 20 + 4*i {
			fmt.Fprintf(&bulk, "{\"index\":{\"_index\":%q,\"_id\":\"%d\"}}\n{\"message\":%q}\n", name, k, strings.Repeat("line ", 40))
			documents++
		}
	}
	if _, err := n.Send(t.Context(), "POST", "/_bulk?refresh=true", "application/x-ndjson", bulk.Bytes()); err != nil {
		t.Fatal(err)
	}
	call(t, n, "PUT", "/_snapshot/wide", map[string]any{"type": "fs", "settings": map[string]any{"location": repo}})
	call(t, n, "PUT", "/_snapshot/wide/all?wait_for_completion=true", map[string]any{"include_global_state": false})
	call(t, n, "DELETE", "/_snapshot/wide", nil)
	wipe(t, n)
	return repo, documents
}

// begin starts a program that runs until the test ends, and returns a buffer that receives the chosen output.
func begin(t *testing.T, output func(*exec.Cmd, *lockedBuffer), name string, args ...string) *lockedBuffer {
	t.Helper()
	cmd := exec.Command(Binary(t, name), args...)
	cmd.Dir = t.TempDir()
	said := &lockedBuffer{}
	output(cmd, said)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && t.Failed() {
			t.Logf("%s: %v\n%s", name, err, said.String())
		}
	})
	return said
}

// TestThePageShowsAMigrationOfAHundredShards follows a real one in a real browser, from the first
// shard to the last, by way of rfsctl page.
func TestThePageShowsAMigrationOfAHundredShards(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		t.Skip("not run: ", err)
	}
	must(t, err)
	defer b.Close()
	n := cluster.OpenSearch(t, targets[0])
	repo, documents := wide(t, n)
	slow := newProxy(t, n.URL, 5*time.Millisecond)
	// The last shards arrive when the page has shown that they are missing: a busy browser may take longer than the migration.
	last, requests := make(chan struct{}), atomic.Int64{}
	slow.held = func(_ string, isBulk bool, _ []byte) <-chan struct{} {
		if isBulk && requests.Add(1) > 60 { // one of each shard
			return last
		}
		return nil
	}
	arrive := sync.OnceFunc(func() { close(last) })
	defer arrive()
	dir := t.TempDir()
	socket, reader := filepath.Join(dir, "operator"), filepath.Join(dir, "status")
	const canary = "canary-51c2"
	var node *exec.Cmd
	run := func(c *exec.Cmd, said *lockedBuffer) {
		node, c.Stderr = c, said
		c.Env = append(os.Environ(), "RFS_TARGET_PASSWORD="+canary)
	}
	log := begin(t, run, "rfsd", "run", "--target-username", "me", "--repo-uri", repo, "--snapshot-name", "all",
		"--target-host", slow.URL, "--session-name", "page", "--workers", "2", "--socket", socket, "--status-socket", reader,
		"--failed-documents", filepath.Join(dir, "failed"), "--node-name", "mover-1")
	until(t, "the node answers", func() bool { _, err := os.Stat(reader); return err == nil })

	page := begin(t, func(c *exec.Cmd, said *lockedBuffer) { c.Stdout = said }, "rfsctl", "page", "--no-browser", "--node", reader)
	address := regexp.MustCompile(`http://[0-9a-f]{32}\.localhost:\d+/\?token=[0-9a-f]{64}`)
	until(t, "rfsctl tells the address", func() bool { return address.MatchString(page.String()) })
	must(t, b.Look(ctx, 1280, 1350, false))
	must(t, b.Open(ctx, address.FindString(page.String())))
	// Some shards are done and some are not: this is what people look at.
	must(t, b.Wait(ctx, "document.querySelectorAll('.shard').length === 100 && document.querySelectorAll('.shard.done').length >= 30"))
	var open int
	must(t, b.Eval(ctx, "document.querySelectorAll('.shard:not(.done)').length", &open))
	if open == 0 {
		t.Error("the page showed nothing before the end")
	}
	const phase = "[...document.querySelectorAll('#workers tbody tr')].map((r) => r.cells[2].textContent)"
	must(t, b.Wait(ctx, phase+".includes('documents in progress')"))
	picture, err := b.Screenshot(ctx)
	must(t, err)
	if dir := os.Getenv("RFSD_ARTIFACTS"); dir != "" {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "page-migration.png"), picture, 0o644))
	}
	arrive()
	must(t, b.Wait(ctx, "document.querySelectorAll('.shard.done').length === 100 && document.querySelector('#all.done') !== null"))
	var updates int
	must(t, b.Eval(ctx, "Number(document.body.dataset.updates)", &updates))
	if updates < 5 {
		t.Errorf("the page was told %d times", updates)
	}
	for _, kind := range []string{"Runtime.exceptionThrown", "Log.entryAdded"} {
		for _, e := range b.Events(kind) {
			t.Errorf("%s: %s", kind, e.Params)
		}
	}

	for _, path := range []string{"status", "items", "events", "failures", "logs", "report"} {
		if res := Run(t, "rfsctl", strings.Fields(strings.Replace(path, "items", "items list", 1)+" --output json --node "+socket)...); res.Stdout == "" || strings.Contains(res.Stdout, canary) {
			t.Errorf("%s tells nothing or a secret: %s%s", path, res.Stdout, res.Stderr)
		}
	}
	if strings.Contains(log.String(), canary) {
		t.Error("the log tells a secret")
	}

	// rfsctl says the same of it, and the documents are there.
	var r status.Report
	res := Run(t, "rfsctl", "status", "--node", reader, "--output", "json")
	if err := outputtest.Decode(res.Stdout, &r); err != nil || res.Code != 0 || !r.Migration.Complete || r.Migration.Totals.Indexed != int64(documents) {
		t.Errorf("exit %d, %v: %s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	if got := len(landed(t, n)); got < documents {
		t.Errorf("%d documents arrived, %d were in the snapshot", got, documents)
	}
	if lines := bufio.NewScanner(strings.NewReader(Run(t, "rfsctl", "status", "--node", dir+"/nobody,"+reader).Stdout)); !lines.Scan() || !strings.HasPrefix(lines.Text(), "node mover-1") {
		t.Error("a node that does not answer keeps rfsctl from asking the next")
	}

	// The node is killed: the page keeps what it was told last, with its time.
	must(t, node.Process.Kill())
	must(t, b.Wait(ctx, "/does not answer any more.* came at [0-9:]+ /.test(document.getElementById('ended').textContent) && document.querySelector('#all.done') !== null"))
}
