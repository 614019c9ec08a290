package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestPartsOfAShardArriveWholeThroughKills migrates one shard in eight parts while the process is killed 6 times, or RFSD_KILLS times, at
// most 50. The index that the Java tool searches for work is not created.
func TestPartsOfAShardArriveWholeThroughKills(t *testing.T) {
	kills := 6
	if s := os.Getenv("RFSD_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		kills = min(n, 50)
	}
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := fixture(t, "7.10.2-many-chunks")
	proxy := newProxy(t, n.URL, 50*time.Millisecond)
	args := targetArgs(proxy.URL, repo, "--documents-per-bulk-request", "4", "--disable-compression", "--max-connections", "4", "--slots", "4", "--split-shards-over", "64KiB")
	dir := t.TempDir()
	var killed []time.Time
	for range kills {
		sent := proxy.documents.Load()
		more := int64(4 + rand.IntN(8))
		killAfter(t, dir, args, func() bool {
			first, _ := proxy.acknowledged() // the first requests may be under way still
			return proxy.documents.Load() >= sent+more && !first.IsZero()
		})
		killed = append(killed, time.Now())
	}
	sum := parseSummary(t, RunIn(t, dir, nil, "rfsd", args...))
	if !sum.Complete || len(sum.Indices) != 1 || sum.Indices[0].Failed != 0 {
		t.Errorf("%+v", sum)
	}
	compareLanded(t, n, repo)
	first, last := proxy.acknowledged()
	for _, at := range killed {
		if !at.After(first) || !at.Before(last) {
			t.Errorf("a kill at %v, documents were acknowledged from %v to %v", at, first, last)
		}
	}
	parts, ordinals := map[int64]bool{}, int64(0)
	for item, err := range coordinator(t, n, "", time.Minute).Items(t.Context()) {
		must(t, err)
		parts[item.End] = true
		ordinals += item.Counts.Ordinals
		if item.Open() || item.FailedItem() || item.End == 0 {
			t.Errorf("%+v", item)
		}
	}
	if len(parts) != 8 || !parts[ordinals] {
		t.Errorf("parts end at %v, the items count %d ordinals", parts, ordinals)
	}
	for _, x := range catIndices(t, n) {
		if strings.HasPrefix(x, ".migrations_working_state") {
			t.Errorf("%s exists: workers of another tool could lease parts", x)
		}
	}
	if res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repo)...); res.Code == 0 || !strings.Contains(res.Stderr, "split-shards-over") {
		t.Errorf("the same session without parts: exit %d: %s", res.Code, res.Stderr)
	}
}

// catIndices returns the names of all indices of a cluster.
func catIndices(t *testing.T, n *cluster.Node) (names []string) {
	t.Helper()
	var all []struct{ Index string }
	must(t, n.JSON(t.Context(), "GET", "/_cat/indices?format=json&expand_wildcards=all", nil, &all))
	for _, x := range all {
		names = append(names, x.Index)
	}
	return names
}

// TestTheCommandsKnowAShardOfParts checks that commands work for a shard that was migrated in parts: documents that a strict mapping
// rejects are listed, read again from their parts and sent again; the session is compared with its snapshot, and undone.
func TestTheCommandsKnowAShardOfParts(t *testing.T) {
	const documents, parts = 1280, 8
	n := cluster.OpenSearch(t, targets[0])
	repo := fixture(t, "7.10.2-many-chunks")
	at := []string{"--target-host", n.URL, "--session-name", "parts"}
	failed := filepath.Join(t.TempDir(), "failed")
	args := targetArgs(n.URL, repo, "--session-name", "parts", "--slots", "4", "--split-shards-over", "64KiB", "--failed-documents", failed, "--max-failed-documents", "unlimited")
	ask := func(code int, into any, program string, args ...string) Result {
		t.Helper()
		res := Run(t, program, args...)
		if res.Code != code {
			t.Errorf("%s %v: exit %d, want %d: %s%s", program, args, res.Code, code, res.Stdout, res.Stderr)
		}
		if into != nil {
			must(t, outputtest.Decode(res.Stdout, into))
		}
		return res
	}
	var list struct {
		Items []struct {
			ID, State string
		}
	}
	items := func() int {
		t.Helper()
		ask(0, &list, "rfsctl", append([]string{"items", "list", "--output", "json"}, at...)...)
		for _, x := range list.Items {
			if x.State != "done" && x.State != "handed off" {
				t.Errorf("item %s is %s", x.ID, x.State)
			}
			ask(0, nil, "rfsctl", append(append([]string{"items", "show"}, at...), x.ID)...)
		}
		return len(list.Items)
	}
	complete := func(code int) {
		t.Helper()
		if res := ask(code, nil, "rfsctl", append([]string{"status", "--output", "json"}, at...)...); !strings.Contains(res.Stdout, `"documents": 1280`) {
			t.Errorf("status: %s", res.Stdout)
		}
	}

	wipe(t, n)
	call(t, n, "PUT", "/chunks", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
	if sum := parseSummary(t, ask(6, nil, "rfsd", args...)); len(sum.Indices) != 1 || sum.Indices[0].Failed != documents {
		t.Errorf("%+v", sum)
	}
	if got := items(); got < parts {
		t.Errorf("%d items", got)
	}
	complete(6)
	ask(0, nil, "rfsctl", append([]string{"report"}, at...)...)
	call(t, n, "PUT", "/chunks/_mapping", map[string]any{"dynamic": false})
	if r := redrives(t, 0, append(at, "--failed-documents", failed, "--index-allowlist", "chunks", "--max-failed-documents", "unlimited")...); r.Indexed != documents || !r.Complete {
		t.Errorf("redrive: %+v", r)
	}
	compareLanded(t, n, repo)
	ask(0, nil, "rfsd", append([]string{"verify", "--repo-uri", repo, "--snapshot-name", "snap1", "--split-shards-over", "64KiB"}, at...)...)

	wipe(t, n)
	args[len(args)-3] = filepath.Join(t.TempDir(), "failed")
	if sum := parseSummary(t, ask(0, nil, "rfsd", args...)); !sum.Complete || sum.Indices[0].Indexed != documents {
		t.Errorf("%+v", sum)
	}
	items()
	complete(0)
	undone(t, 0, at...)
	for _, x := range catIndices(t, n) {
		if x == "chunks" {
			t.Errorf("%s is left", x)
		}
	}
}
