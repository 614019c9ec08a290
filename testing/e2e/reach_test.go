package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/serverless"
	"github.com/rfsd/rfsd/testing/truth"
)

const (
	reachIndexed = 220_000
	reachLive    = 218_533 // the others are deleted again
	reachIndex   = "bench"
	reachKills   = 3
)

// account is what a cluster or an export holds: the digest of each document, and the bytes of all sources.
type account struct {
	digests map[truth.Key][sha256.Size]byte
	bytes   int
}

func (a *account) add(k truth.Key, source []byte) {
	if a.digests == nil {
		a.digests = make(map[truth.Key][sha256.Size]byte, reachLive)
	}
	a.digests[k] = sha256.Sum256(source)
	a.bytes += len(source)
}

// differs describes up to three documents by which got is another account; "" if there are none.
func (a *account) differs(got account) string {
	var missing, other, extra int
	var examples []string
	note := func(count *int, what string, k truth.Key) {
		if *count++; len(examples) < 3 {
			examples = append(examples, what+" "+k.ID)
		}
	}
	for k, digest := range a.digests {
		switch there, ok := got.digests[k]; {
		case !ok:
			note(&missing, "missing", k)
		case there != digest:
			note(&other, "other bytes in", k)
		}
	}
	for k := range got.digests {
		if _, ok := a.digests[k]; !ok {
			note(&extra, "extra", k)
		}
	}
	if missing+other+extra == 0 {
		return ""
	}
	return fmt.Sprintf("%d documents are missing, %d have other bytes, %d are there too many: %q", missing, other, extra, examples)
}

// accountOf reads all documents of a node by a scroll.
func accountOf(t *testing.T, n *cluster.Node) (a account) {
	t.Helper()
	call(t, n, "POST", "/"+reachIndex+"/_refresh", nil)
	eachHit(t, n, "/"+reachIndex+"/_search?scroll=1m&size=4000", a.add)
	return a
}

// reachSource returns a repository that a real Elasticsearch 7.10.2 has written: the documents of the benchmark in four shards, a third of
// them with ids of their own, of which some were deleted and some overwritten. The account is the cluster's own.
func reachSource(t *testing.T) (repo string, want account) {
	t.Helper()
	docs, err := corpus.New(corpus.Mixed)
	must(t, err)
	n := cluster.Elasticsearch(t, "7.10.2", cluster.Heap("1g"))
	must(t, n.JSON(t.Context(), "PUT", "/"+reachIndex, map[string]any{
		"settings": map[string]any{"number_of_shards": 4, "number_of_replicas": 0, "refresh_interval": "30s", "translog.durability": "async"},
		"mappings": map[string]any{"dynamic": false, "properties": map[string]any{"@timestamp": map[string]any{"type": "date"}, "order_id": map[string]any{"type": "long"}, "status": map[string]any{"type": "keyword"}, "message": map[string]any{"type": "text"}}},
	}, nil))
	var body bytes.Buffer
	flush := func(least int) {
		if body.Len() <= least {
			return
		}
		answer, err := n.Send(t.Context(), "POST", "/"+reachIndex+"/_bulk?filter_path=errors", "application/x-ndjson", body.Bytes())
		must(t, err)
		if !bytes.Contains(answer, []byte("false")) {
			t.Fatalf("bulk: %s", answer)
		}
		body.Reset()
	}
	for i := range reachIndexed {
		if i%3 == 0 {
			fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", i, docs.Append(nil, i, 0))
		} else {
			fmt.Fprintf(&body, "{\"index\":{}}\n%s\n", docs.Append(nil, i, 0))
		}
		flush(4 << 20)
	}
	flush(0)
	for i := 0; i < reachIndexed; i += 3 {
		switch i / 3 % 50 {
		case 0:
			fmt.Fprintf(&body, "{\"delete\":{\"_id\":\"%d\"}}\n", i)
		case 7:
			fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", i, docs.Append(nil, i, 1))
		}
	}
	flush(0)
	want = accountOf(t, n)
	if len(want.digests) != reachLive {
		t.Fatalf("the source holds %d documents", len(want.digests))
	}
	made, err := n.Snapshot(t.Context(), "reach", "snap1", reachIndex)
	must(t, err)
	repo = copyTree(t, made)
	must(t, n.Stop())
	return repo, want
}

// killing runs a command again and again, and kills it at random moments.
type killing struct {
	*rand.Rand
	work int64        // all of it
	done func() int64 // what is done of it
}

// run starts rfsd and kills it without warning, once in each third of the work, and starts the same command again. It returns the result of
// the last process, which is not killed.
func (k killing) run(t *testing.T, dir string, env, args []string) Result {
	t.Helper()
	env = append(env, "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	for i := range reachKills {
		mark := k.work * int64(i) / reachKills
		mark += k.Int64N(k.work / reachKills)
		later := time.Duration(k.Int64N(int64(50 * time.Millisecond))) // within a request, too
		cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		var said bytes.Buffer
		cmd.Stderr = &said
		ended := startAndWatch(t, cmd)
		until(t, "the work goes on", func() bool { return k.done() >= mark || isClosed(ended) })
		time.Sleep(later)
		if isClosed(ended) {
			t.Fatalf("process %d ended before it was killed: %s", i, said.String())
		}
		must(t, cmd.Process.Kill())
		<-ended
		t.Logf("killed after %d of %d", k.done(), k.work)
	}
	r := RunIn(t, dir, env, "rfsd", args...)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	if total := parseSummary(t, r).total(); total != reachLive {
		t.Errorf("the summary counts %d documents of %d", total, reachLive)
	}
	return r
}

// reach is one migration: from a kind of repository to a kind of target.
type reach struct {
	*testing.T
	store
	rand *rand.Rand
	want account
}

// toCluster migrates into a real OpenSearch.
func (r reach) toCluster(version string) {
	n := cluster.OpenSearch(r.T, version)
	wipe(r.T, n)
	p := newProxy(r.T, n.URL, 0)
	k := killing{r.rand, reachLive, p.documents.Load}
	k.run(r.T, r.TempDir(), r.env, append(targetArgs(p.URL, r.uri, "--disable-compression"), r.args...))
	if f := r.want.differs(accountOf(r.T, n)); f != "" {
		r.Error(f)
	}
	r.Logf("%d documents were sent", p.documents.Load())
}

// toCollection migrates into a collection of OpenSearch Serverless.
func (r reach) toCollection() {
	n := cluster.OpenSearch(r.T, targets[0])
	wipe(r.T, n)
	p := newProxy(r.T, n.URL, 0)
	c := &serverless.Collection{Type: serverless.Search, Refresh: 3 * time.Second, Unknown: time.Second, Full: 2}
	env, args := collectionArgs(r.T, c, p.URL)
	k := killing{r.rand, reachLive, p.documents.Load}
	k.run(r.T, r.TempDir(), env, slices.Concat([]string{"migrate", "--repo-uri", r.uri, "--snapshot-name", "snap1", "--disable-compression",
		"--coordinator-file", filepath.Join(r.TempDir(), "c.db"), "--output", "json"}, args))
	if f := r.want.differs(accountOf(r.T, n)); f != "" {
		r.Error(f)
	}
	onlyTheProbe(r.T, c)
}

// toFiles exports into a directory.
func (r reach) toFiles() {
	dir := r.TempDir()
	out := filepath.Join(dir, "out")
	k := killing{r.rand, int64(r.want.bytes), func() int64 { return sizeOf(r.T, out) }}
	k.run(r.T, dir, r.env, append(exportArgs(r.uri, out, "--max-rate", "40MB"), r.args...))
	docs, err := truth.LoadExport(out)
	must(r.T, err)
	var got account
	for key, source := range docs {
		got.add(key, source)
	}
	if f := r.want.differs(got); f != "" {
		r.Error(f)
	}
}

// toNothing reads everything and keeps nothing, not even a state: the last process reads all documents, and what it can be compared by is
// their number and the bytes of their sources.
func (r reach) toNothing() {
	dir := r.TempDir()
	begin := time.Now()
	k := killing{r.rand, int64(1500 * time.Millisecond), func() int64 { return int64(time.Since(begin)) }} // of at least two seconds
	res := k.run(r.T, dir, r.env, slices.Concat([]string{"migrate", "--repo-uri", r.uri, "--snapshot-name", "snap1", "--discard", "--max-read-rate", "40MB", "--output", "json"}, r.args))
	if got := parseSummary(r.T, res).Totals.Bytes; got != r.want.bytes {
		r.Errorf("%d bytes of sources were read, the source cluster has %d", got, r.want.bytes)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // the directory of the state
		r.Errorf("it left %v, %v", left, err)
	}
}

// TestReach_EveryRepositoryAndEveryTargetWithKills migrates the documents of the benchmark from each kind of repository into a cluster, and
// from a directory into each kind of target. In each case three processes are killed. RFSD_REACH is the seed of the moments.
func TestReach_EveryRepositoryAndEveryTargetWithKills(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("RFSD_REACH"), 10, 64)
	if err != nil {
		t.Skip("RFSD_REACH=SEED migrates 218,533 documents nine times and kills three processes each time, for some ten minutes")
	}
	repo, want := reachSource(t)
	t.Logf("RFSD_REACH=%d; %d bytes of sources", seed, want.bytes)
	for i, c := range []struct {
		name string
		from func(t *testing.T, repo string) store
		to   func(r reach)
	}{
		{"directory to " + targets[0], inDirectory, func(r reach) { r.toCluster(targets[0]) }},
		{"S3 to " + targets[0], inS3, func(r reach) { r.toCluster(targets[0]) }},
		{"Google Cloud Storage to " + targets[0], inGCS, func(r reach) { r.toCluster(targets[0]) }},
		{"Azure to " + targets[0], inAzure, func(r reach) { r.toCluster(targets[0]) }},
		{"web server to " + targets[0], inWeb, func(r reach) { r.toCluster(targets[0]) }},
		{"directory to 3.8.0", inDirectory, func(r reach) { r.toCluster("3.8.0") }},
		{"directory to a collection", inDirectory, reach.toCollection},
		{"directory to files", inDirectory, reach.toFiles},
		{"directory to nothing", inDirectory, reach.toNothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			c.to(reach{t, c.from(t, repo), rand.New(rand.NewPCG(seed, uint64(i))), want})
			t.Log(time.Since(begin).Round(time.Second))
		})
	}
}
