package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_OtherCommands runs the other commands after rounds in which documents failed, were updated, and were deleted: what they
// report is as the source is, and redrive brings nothing back that the source has deleted, also when the target has forgotten it.
func TestFollow_OtherCommands(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/walk-a", map[string]any{"settings": map[string]any{"number_of_replicas": 0, "index.gc_deletes": "1s"}, "mappings": map[string]any{"dynamic": "strict", "properties": map[string]any{"n": map[string]any{"type": "long"}}}})
	dir, args := t.TempDir(), followLive(source, "walk", n.URL, "walk-*")
	fine, bad := map[string]any{"n": 1}, map[string]any{"n": 1, "new": 1}
	put := func(id string, v any) { call(t, source, "PUT", "/walk-a/_doc/"+id+"?refresh=true", v) }
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/walk-a", "", nil)
	})
	follow := func(code int) summary {
		t.Helper()
		r := RunIn(t, dir, nil, "rfsd", args...)
		if r.Code != code {
			t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
		}
		return parseSummary(t, r)
	}
	of := func(program, command, session string, more ...string) Result {
		t.Helper()
		line := append(strings.Fields(command), "--target-host", n.URL, "--session-name", session)
		return RunIn(t, dir, nil, program, append(line, more...)...)
	}
	says := func(r Result, code int, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(r.Stdout+r.Stderr, text) {
				t.Errorf("without %q", text)
			}
		}
		if r.Code != code || t.Failed() {
			t.Errorf("exit %d, not %d: %s %s", r.Code, code, r.Stdout, r.Stderr)
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		put(id, fine)
	}
	for _, id := range []string{"updated", "deleted", "stays"} {
		put(id, bad)
	}
	follow(6)
	put("updated", map[string]any{"n": 2})
	put("later", bad)
	call(t, source, "DELETE", "/walk-a/_doc/2?refresh=true", nil)
	follow(6)
	call(t, source, "DELETE", "/walk-a/_doc/deleted?refresh=true", nil)
	put("1", map[string]any{"n": 3})
	last := follow(0).Round.Snapshot

	repo := []string{"--repo-uri", "file://" + filepath.Join(source.Repos, "walk")}
	only := append(repo, "--index-allowlist", "walk-*")
	says(of("rfsd", "verify --changed", "walk", only...), 0, "result: equal", last)
	says(of("rfsd", "verify --changed", "walk-round-2", only...), 1, "round 2 of the session walk, give --session-name walk")
	says(of("rfsctl", "failures", "walk"), 6, "3 documents failed", "round 1: 1 document failed first")
	says(of("rfsctl", "failures", "walk-round-1"), 6, "1 document failed")
	says(of("rfsctl", "items list", "walk-round-2"), 0, "safe to write: no, rounds may still change the target")
	says(of("rfsctl", "status", "walk-round-2"), 0, "snapshot "+last+", session", "do not write to the target: rounds may still change it")
	says(of("rfsctl", "status", "walk"), 6, "snapshot rfs-walk-")
	says(of("rfsctl", "undo", "walk-round-2", "--yes"), 1, "walk-round-2 is round 2 of a cluster that is followed", "give --session-name walk")
	says(of("rfsctl", "cleanup", "walk"), 1, "the session is followed")
	says(of("rfsctl", "cutover --dry-run", "walk"), 1, "4 documents failed in the rounds so far")

	call(t, n, "PUT", "/walk-a/_mapping", map[string]any{"dynamic": true})
	time.Sleep(1500 * time.Millisecond)
	for range 2 { // the target forgets the deletion
		put("flush", fine)
		call(t, source, "DELETE", "/walk-a/_doc/flush?refresh=true", nil)
		call(t, n, "POST", "/walk-a/_flush?force=true", nil)
		call(t, n, "POST", "/walk-a/_refresh", nil)
	}
	says(of("rfsd", "redrive", "walk", "--index-allowlist", "walk-a"), 1, "have deleted documents, which may be among these: give --repo-uri")
	says(of("rfsd", "redrive", "walk", only...), 0, "documents 3: indexed 1, failed again 0", "1 were not sent, because later rounds have deleted them", "1 were not sent in place of documents that the target has")
	says(of("rfsd", "redrive", "walk-round-1", only...), 0, "documents 1: indexed 1")
	says(of("rfsctl", "failures", "walk"), 0, "3 documents failed first; rfsd redrive has delivered them")
	same(t, source, n, "walk-*")
	follow(0)
	same(t, source, n, "walk-*")
	if left, err := filepath.Glob(filepath.Join(dir, "rfsd-failed", "*", "*.ndjson")); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
	says(of("rfsctl", "undo", "walk", "--yes"), 0)
	refusedWith(t, RunIn(t, dir, nil, "rfsd", args...), "rfsctl undo")
}

// TestFollow_WithoutASessionName: the rounds of the session without a name continue each other, and the commands find them, wherever the state
// of the work is kept.
func TestFollow_WithoutASessionName(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo, bucket := fixture(t, "7.10.2-history"), stateBucket(t, 0)
	bucket = bucket[:slices.Index(bucket, "--session-name")]
	for place, at := range map[string][]string{"target": nil, "file": {"--coordinator-file", "state.db"}, "bucket": bucket} {
		t.Run(place, func(t *testing.T) {
			wipe(t, n)
			dir := t.TempDir()
			for i, snapshot := range []string{"snap-1", "snap-3"} {
				sum := round(t, dir, append([]string{"follow", "--once", "--repo-uri", repo, "--snapshot-name", snapshot, "--target-host", n.URL, "--output", "json"}, at...))
				if !sum.Round.Arrived || sum.Round.Number != i {
					t.Errorf("%+v", sum.Round)
				}
				holds(t, n, repo, snapshot)
			}
			for _, args := range [][]string{{"rfsd", "verify", "--changed", "--repo-uri", repo}, {"rfsctl", "status"}, {"rfsctl", "undo", "--yes"}, {"rfsctl", "cleanup", "--force", "--session-name", "default"}} {
				if r := RunIn(t, dir, nil, args[0], slices.Concat(args[1:], at, []string{"--target-host", n.URL})...); r.Code != 0 {
					t.Errorf("%v: exit %d: %s %s", args, r.Code, r.Stdout, r.Stderr)
				}
			}
			if left := call(t, n, "GET", "/_all/_settings?expand_wildcards=all", nil); len(left) > 0 {
				t.Errorf("the target has %v", left)
			}
		})
	}
}
