package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// refusedWith fails unless a run ended with exit code 1 and its error has every word.
func refusedWith(t *testing.T, r Result, words ...string) {
	t.Helper()
	if r.Code != 1 {
		t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			t.Errorf("%q is not in: %s", w, r.Stderr)
		}
	}
}

// TestASessionIsOfOneDestinationAndSnapshot checks that a session continues only with the destination and the snapshot of its start.
func TestASessionIsOfOneDestinationAndSnapshot(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "repository")
	must(t, os.CopyFS(repo, os.DirFS(demoRepo())))
	run := func(args ...string) Result {
		return RunIn(t, dir, nil, "rfsd", append([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1"}, args...)...)
	}
	done := func(args ...string) {
		t.Helper()
		if r := run(args...); r.Code != 0 {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	done("--discard", "--coordinator-file", "dryrun.db")
	done("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd")
	done("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd")
	t.Run("a dry run is not an export", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d2", "--coordinator-file", "dryrun.db"), "destination was", "dry run", "export directory", "--session-name")
	})
	t.Run("another export directory", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d3", "--coordinator-file", "f.db", "--export-compression", "zstd"), "destination-id was")
	})
	t.Run("another compression", func(t *testing.T) {
		refusedWith(t, run("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "gzip"), `export-compression was "zstd", is "gzip"`)
	})
	t.Run("another snapshot under the name", func(t *testing.T) {
		must(t, os.RemoveAll(repo))
		must(t, os.CopyFS(repo, os.DirFS(filepath.Join(Root(), "testing", "fixtures", "7.10.2-basic"))))
		refusedWith(t, run("--export-dir", "d1", "--coordinator-file", "f.db", "--export-compression", "zstd"), "snapshot-uuid was")
		r := RunIn(t, dir, nil, "rfsd", "worker", "--repo-uri", repo, "--snapshot-name", "snap1", "--discard", "--coordinator-file", "dryrun.db")
		refusedWith(t, r, "snapshot-uuid was")
	})
}

// TestATargetIndexThatVanishesAfterItsLastItemIsReported deletes an index while documents of others come.
func TestATargetIndexThatVanishesAfterItsLastItemIsReported(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 400*time.Millisecond)
	dir := t.TempDir()
	args := targetArgs(p.URL, demoRepo(), "--session-name", "vanish", "--first", "catalogue", "--slots", "1", "--max-connections", "1", "--documents-per-bulk-request", "4")
	type ended struct {
		out  []byte
		code int
	}
	end := make(chan ended, 1)
	go func() {
		cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
		out, _ := cmd.Output() //nolint:errcheck // the exit code says it
		end <- ended{out, cmd.ProcessState.ExitCode()}
	}()
	coord := coordinator(t, n, "vanish", 10*time.Minute)
	until(t, "the index is done", func() bool {
		it, err := coord.Item(t.Context(), cms.ItemID{Index: "catalogue"})
		return err == nil && !it.Open()
	})
	if _, err := n.Send(t.Context(), "DELETE", "/catalogue", "", nil); err != nil {
		t.Fatal(err)
	}
	p.delay.Store(0)
	check := func(out []byte, code int) {
		t.Helper()
		var sum struct {
			Complete bool
			Indices  []struct {
				Index string
				Done  int `json:"shards_done"`
			}
			Problems []struct{ Index, Reason string }
		}
		must(t, outputtest.Decode(out, &sum))
		if code != 7 || !sum.Complete || len(sum.Problems) != 1 || sum.Problems[0].Index != "catalogue" || !strings.Contains(sum.Problems[0].Reason, "does not exist") {
			t.Errorf("exit %d, %+v", code, sum)
		}
		for _, x := range sum.Indices {
			if (x.Done == 0) != (x.Index == "catalogue") {
				t.Errorf("%+v", x)
			}
		}
	}
	first := <-end
	check(first.out, first.code)
	again := RunIn(t, dir, nil, "rfsd", args...)
	check([]byte(again.Stdout), again.Code)
}

// TestTheEndIsLookedForAtTheTarget checks the comparison at the end: it reports missing documents and does not count nested ones. All
// documents are visible to searches.
func TestTheEndIsLookedForAtTheTarget(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := filepath.Join(Root(), "testing", "fixtures", "7.10.2-basic")
	dir := t.TempDir()
	r := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repo, "--session-name", "whole")...)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	var whole struct {
		Indices []struct {
			Index   string
			Indexed int64
			Arrival *struct{ Expected, Found int64 }
		}
	}
	must(t, outputtest.Decode(r.Stdout, &whole))
	some := ""
	for _, x := range whole.Indices {
		if x.Arrival == nil || x.Arrival.Found != x.Indexed || x.Arrival.Expected != x.Indexed {
			t.Errorf("%+v", x)
		}
		var count []struct {
			Count string `json:"docs.count"`
		}
		must(t, n.JSON(t.Context(), "GET", "/_cat/indices/"+x.Index+"?format=json", nil, &count))
		if x.Indexed > 0 && (len(count) != 1 || count[0].Count == "0") {
			t.Errorf("index %s shows %+v after the end", x.Index, count)
		}
		if x.Indexed > 1 {
			some = x.Index
		}
	}
	// Another session meets an index of its own from which another client deletes while documents of another come.
	wipe(t, n)
	p := newProxy(t, n.URL, 0)
	var once sync.Once
	p.before = func(path string) {
		if path != "/"+some+"/_refresh" {
			return
		}
		once.Do(func() {
			call(t, n, "POST", "/"+some+"/_refresh", nil)
			call(t, n, "POST", "/"+some+"/_delete_by_query?max_docs=1&refresh=true", map[string]any{"query": map[string]any{"match_all": map[string]any{}}})
		})
	}
	r = RunIn(t, dir, nil, "rfsd", targetArgs(p.URL, repo, "--session-name", "fewer", "--aliases", "late")...)
	if r.Code != 7 || !strings.Contains(r.Stdout, "1 are missing") || !strings.Contains(r.Stdout, some) {
		t.Errorf("exit %d: %s", r.Code, r.Stdout)
	}
}

// TestTheSourceIsNotTheTarget: a snapshot of the target itself is refused before anything is written.
func TestTheSourceIsNotTheTarget(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := repositoryOn(t, n)
	call(t, n, "PUT", "/live/_doc/1?refresh=true", map[string]any{"text": "of the snapshot"})
	call(t, n, "PUT", "/_snapshot/itself", map[string]any{"type": "fs", "settings": map[string]any{"location": repo}})
	t.Cleanup(func() {
		if _, err := n.Send(context.WithoutCancel(t.Context()), "DELETE", "/_snapshot/itself", "", nil); err != nil {
			t.Error(err)
		}
	})
	call(t, n, "PUT", "/_snapshot/itself/snap1?wait_for_completion=true", map[string]any{"indices": "live"})
	call(t, n, "PUT", "/live/_doc/1?refresh=true", map[string]any{"text": "after it"})
	text := func(index string) any {
		source, ok := call(t, n, "GET", "/"+index+"/_doc/1", nil)["_source"].(map[string]any)
		if !ok {
			return nil
		}
		return source["text"]
	}
	refusedWith(t, Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "itself")...), "live", "the target is the source", "--allow-source-as-target")
	if r := Run(t, "rfsd", "plan", "--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", n.URL); r.Code != 7 || !strings.Contains(r.Stdout, "the target is the source") {
		t.Errorf("plan: exit %d: %s", r.Code, r.Stdout)
	}
	refusedWith(t, Run(t, "rfsd", "worker", "--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", n.URL, "--session-name", "itself"), "the target is the source")
	if got := text("live"); got != "after it" {
		t.Fatalf("the source has %v", got)
	}
	r := Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "copy", "--index-rename", "live=copy")...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "the target is the cluster that the snapshot was taken of") || text("copy") != "of the snapshot" {
		t.Errorf("under another name: exit %d: %s", r.Code, r.Stderr)
	}
	if r := Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "back", "--allow-source-as-target", "--existing-documents", "overwrite")...); r.Code != 0 || text("live") != "of the snapshot" {
		t.Errorf("permitted: exit %d, %v: %s", r.Code, text("live"), r.Stderr)
	}
}

// TestOneDamagedMetadataBlobFailsItsIndexAlone flips a bit in the metadata of one index.
func TestOneDamagedMetadataBlobFailsItsIndexAlone(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := filepath.Join(t.TempDir(), "repository")
	must(t, os.CopyFS(repo, os.DirFS(demoRepo())))
	blobs, err := filepath.Glob(filepath.Join(repo, "indices", "*", "meta-*.dat"))
	must(t, err)
	b, err := os.ReadFile(blobs[0])
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(blobs[0], b, 0o600))
	blob := filepath.Base(blobs[0])
	at := []string{"--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", n.URL}
	r := Run(t, "rfsd", append([]string{"plan"}, at...)...)
	if r.Code != 7 || !strings.Contains(r.Stdout, blob) || !strings.Contains(r.Stdout, "may create indices") {
		t.Errorf("plan: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "damaged")...)
	p := phasesOf(t, r)
	if r.Code != 7 || !p.Complete || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Reason, blob) || len(p.Events) != 1 {
		t.Fatalf("exit %d: %+v: %s", r.Code, p, r.Stderr)
	}
	for _, x := range p.Indices {
		if bad := x.Index == p.Problems[0].Index; (x.State == session.PhaseFailed) != bad || !bad && x.Indexed == 0 {
			t.Errorf("%+v", x)
		}
	}
}
