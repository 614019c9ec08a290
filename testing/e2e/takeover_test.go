package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/cluster"
)

// javaWorker is named as workers of the Java tool are.
const javaWorker = "generated__5d1f0a9b-e3d4-4d52-8f0e-0b2f6c1e9a37"

// javaQueue begins a session as the Java tool does, as of now in seconds since 1970, and returns what writes its items.
func javaQueue(t *testing.T, n *cluster.Node, session string, now int64) (put func(id, doc string)) {
	t.Helper()
	index := "/.migrations_working_state_" + session
	put = func(id, doc string) {
		t.Helper()
		must(t, n.JSON(t.Context(), "PUT", index+"/_doc/"+id+"?refresh=true", json.RawMessage(doc), nil))
	}
	must(t, n.JSON(t.Context(), "PUT", index, json.RawMessage(`{"settings":{"index":{"refresh_interval":"30s"}},
		"mappings":{"properties":{"expiration":{"type":"long"},"completedAt":{"type":"long"},"leaseHolderId":{"type":"keyword"},
		"status":{"type":"keyword"},"successor_items":{"type":"keyword"}}}}`), nil))
	put(cms.SetupID, fmt.Sprintf(`{"scriptVersion":"3.0","expiration":%d,"creatorId":%q,"nextAcquisitionLeaseExponent":1,"leaseHolderId":%q,"completedAt":%d}`,
		now-600, javaWorker, javaWorker, now-800))
	return put
}

// TestWorkersGoOnWithAQueueOfTheJavaTool begins a session as the Java tool does, leaves every
// index in the middle of a shard, and lets our workers end it: refused while one of the
// tool's workers has a lease, complete afterwards.
func TestWorkersGoOnWithAQueueOfTheJavaTool(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := demo(t)
	const session = "java"
	now := time.Now().Unix()
	put := javaQueue(t, n, session, now)
	var last string
	for _, index := range parseSummary(t, Run(t, "rfsd", "migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--discard", "--output", "json")).Indices {
		for shard := range index.Shards {
			root, next := cms.ItemID{Index: index.Index, Shard: shard}.String(), cms.ItemID{Index: index.Index, Shard: shard, Cursor: 3}.String()
			put(root, fmt.Sprintf(`{"scriptVersion":"3.0","indexName":%q,"expiration":%d,"creatorId":%q,"nextAcquisitionLeaseExponent":1,"leaseHolderId":%q,"successor_items":%q,"completedAt":%d}`,
				index.Index, now-60, javaWorker, javaWorker, next, now-100))
			put(next, fmt.Sprintf(`{"nextAcquisitionLeaseExponent":0,"scriptVersion":"3.0","creatorId":%q,"expiration":0}`, javaWorker))
			last = next
		}
	}
	held := func(end int64) {
		put(last, fmt.Sprintf(`{"nextAcquisitionLeaseExponent":1,"scriptVersion":"3.0","creatorId":%q,"expiration":%d,"leaseHolderId":%q}`, javaWorker, end, javaWorker))
	}
	held(now + 3600)
	dir := t.TempDir()
	args := workerArgs(n.URL, repo, session)
	refused := false
	for range 8 {
		r, ok, code := runWorker(t.Context(), t, dir, args)
		if ok && code == 1 {
			// Others may take the item a grace of 5 s at most after its lease.
			_, words, _ := strings.Cut(r.Error, " until ")
			end, _, _ := strings.Cut(words, ": ")
			until, err := time.Parse(time.RFC3339, end)
			refused = err == nil && strings.Contains(r.Error, javaWorker) && until.Unix() >= now+3600 && until.Unix() <= now+3605
			break
		}
	}
	if !refused {
		t.Error("a queue was taken whose worker is alive, or it was not reported which and until when")
	}
	held(now - 60)
	code := 0
	for n := 0; n < 20 && code != 3; n++ {
		_, _, code = runWorker(t.Context(), t, dir, args)
	}
	if code != 3 {
		t.Fatalf("the work does not end: exit %d", code)
	}
	compareLanded(t, n, repo)
	replaced := 0
	for item, err := range coordinator(t, n, session, time.Minute).Items(t.Context()) {
		must(t, err)
		if item.Status == cms.StatusReplaced {
			replaced++
		}
		if item.Open() || item.FailedItem() {
			t.Errorf("%s: %+v", item.ID, item)
		}
	}
	if replaced == 0 {
		t.Error("nothing was taken over")
	}
}

// TestAQueueOfTheJavaToolIsNotAskedAboutItsDocuments: documents that the target has already end a new session before anything is
// written, unless the queue was begun by the Java tool, whose documents they may be.
func TestAQueueOfTheJavaToolIsNotAskedAboutItsDocuments(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := fixture(t, "7.10.2-basic")
	there := prefilled(t, n)
	args := targetArgs(n.URL, repo, "--index-allowlist", changesOf)
	refusedWith(t, Run(t, "rfsd", append(args, "--session-name", "ours")...), fmt.Sprintf("%s (%d)", changesOf, len(there)), "--existing-documents overwrite")
	put := javaQueue(t, n, "java", time.Now().Unix())
	for _, index := range parseSummary(t, Run(t, "rfsd", "migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--index-allowlist", changesOf, "--discard", "--output", "json")).Indices {
		for shard := range index.Shards {
			put(cms.ItemID{Index: index.Index, Shard: shard}.String(), fmt.Sprintf(`{"nextAcquisitionLeaseExponent":0,"scriptVersion":"3.0","creatorId":%q,"expiration":0}`, javaWorker))
		}
	}
	for _, run := range []string{"the first run", "resumed"} {
		res := Run(t, "rfsd", append(args, "--session-name", "java")...)
		if sum := parseSummary(t, res); res.Code != 0 || !sum.Complete || len(sum.Indices) != 1 || sum.Indices[0].Kept != 0 || sum.Indices[0].Indexed != sum.Indices[0].Live {
			t.Errorf("%s: exit %d, %+v: %s", run, res.Code, sum, res.Stderr)
		}
	}
	for id := range there {
		if stays(t, n, id) != (id == "foreign") {
			t.Errorf("document %s is not as overwriting leaves it", id)
		}
	}
}
