package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ratedSize is the size of a document of a rated source, in bytes.
const ratedSize = 100_000

// rated is a migration at --max-rate, watched by the target's own count of the documents that were indexed.
type rated struct {
	*machines
	rate      float64 // bytes per second
	documents int
	begin     time.Time
	seen      []indexed
}

// indexed is what the target had counted at some time between two.
type indexed struct {
	from, to  time.Duration
	documents int // that were indexed, the same one again, too
}

// newRated makes a snapshot of documents in so many shards, and prepares so many nodes that migrate it back.
func newRated(t *testing.T, nodes, shards, documents int, megabytes float64) *rated {
	t.Helper()
	r := &rated{machines: layMachines(t, 0), rate: megabytes * 1e6, documents: documents}
	r.all = r.all[:nodes]
	n := r.node
	dir := repositoryOn(t, n)
	call(t, n, "PUT", "/rated", map[string]any{
		"settings": map[string]any{"number_of_shards": shards, "number_of_replicas": 0},
		"mappings": map[string]any{"properties": map[string]any{"text": map[string]any{"type": "keyword", "index": false, "doc_values": false}}},
	})
	text := strings.Repeat("line ", ratedSize/5-10)
	for from := 0; from < documents; from += 100 {
		var bulk bytes.Buffer
		for k := from; k < min(from+100, documents); k++ {
			fmt.Fprintf(&bulk, "{\"index\":{\"_index\":\"rated\",\"_id\":\"%d\"}}\n{\"text\":%q}\n", k, text)
		}
		if _, err := n.Send(t.Context(), "POST", "/_bulk", "application/x-ndjson", bulk.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	call(t, n, "PUT", "/_snapshot/rated", map[string]any{"type": "fs", "settings": map[string]any{"location": dir}})
	call(t, n, "PUT", "/_snapshot/rated/snap1?wait_for_completion=true", map[string]any{"include_global_state": false})
	call(t, n, "DELETE", "/_snapshot/rated", nil)
	wipe(t, n)
	r.task = []string{"--repo-uri", dir, "--snapshot-name", "snap1", "--documents-size-per-bulk-request", "500KB", "--initial-lease-duration", "20s",
		"--max-rate", strconv.FormatFloat(megabytes, 'f', -1, 64) + "MB"}
	return r
}

// look adds what the target counts now, and returns it; the first document begins the time.
func (r *rated) look() int {
	r.t.Helper()
	var stats struct {
		Indices map[string]struct {
			Primaries struct {
				Indexing struct {
					Total int `json:"index_total"`
				}
			}
		}
	}
	before := time.Now()
	if err := r.node.JSON(r.t.Context(), "GET", "/rated/_stats/indexing", nil, &stats); err != nil {
		return 0 // it is not there yet
	}
	n := stats.Indices["rated"].Primaries.Indexing.Total
	if n > 0 && r.begin.IsZero() {
		r.begin = before
	}
	if !r.begin.IsZero() {
		r.seen = append(r.seen, indexed{before.Sub(r.begin), time.Since(r.begin), n})
	}
	return n
}

// whole reports whether each document has arrived.
func (r *rated) whole() bool {
	r.t.Helper()
	call(r.t, r.node, "POST", "/rated/_refresh", nil)
	return fmt.Sprint(call(r.t, r.node, "GET", "/rated/_count", nil)["count"]) == strconv.Itoa(r.documents)
}

// excess returns the most bytes beyond the rate that the target counted in any time.
func (r *rated) excess() (most float64) {
	for i, a := range r.seen {
		for _, b := range r.seen[i+1:] {
			most = max(most, float64(b.documents-a.documents)*ratedSize-(b.to-a.from).Seconds()*r.rate)
		}
	}
	return most
}

// TestTheRateWhileNodesAreKilled migrates 240 MB with three nodes at 6 MB/s, which would take 40 s, while a node is killed and started
// again twelve times in the first 72 s.
func TestTheRateWhileNodesAreKilled(t *testing.T) {
	if os.Getenv("RFSD_RATE") == "" {
		t.Skip("RFSD_RATE=1 measures two migrations at --max-rate")
	}
	r := newRated(t, 3, 12, 2400, 6)
	for _, x := range r.all {
		r.start(x)
	}
	until(t, "the first document", func() bool { return r.look() > 0 })
	rng := rand.New(rand.NewPCG(1, 2))
	kills := 0
	var took time.Duration
	for took == 0 {
		since := time.Since(r.begin)
		if since > 10*time.Minute {
			t.Fatalf("%d of %d documents were counted in ten minutes", r.look(), r.documents)
		}
		if kills < 12 && since > time.Duration(kills)*6*time.Second {
			x := r.all[rng.IntN(len(r.all))]
			must(t, x.cmd.Process.Kill())
			_ = x.cmd.Wait()
			<-time.After(time.Second)
			r.start(x)
			kills++
		}
		if n := r.look(); n >= r.documents && r.whole() {
			took = time.Since(r.begin)
		}
		<-time.After(200 * time.Millisecond)
	}
	counted, most := r.look(), r.excess()
	r.t.Logf("%d documents after %.0f s and %d kills (%d indexed); at most %.2f MB beyond the rate in any time", r.documents, took.Seconds(), kills, counted, most/1e6)
	if took > 135*time.Second {
		t.Errorf("it took %v, want 40 s and the 72 s with kills", took)
	}
	if limit := r.rate + 12*ratedSize; most > limit { // a second of the rate may be kept, and requests arrive as a whole
		t.Errorf("%.2f MB beyond the rate, want at most %.2f", most/1e6, limit/1e6)
	}
}

// TestOneShardHasTheWholeRate migrates 180 MB in one shard with two nodes at 3 MB/s: the node without work leaves its part to the other.
func TestOneShardHasTheWholeRate(t *testing.T) {
	if os.Getenv("RFSD_RATE") == "" {
		t.Skip("RFSD_RATE=1 measures two migrations at --max-rate")
	}
	r := newRated(t, 2, 1, 1800, 3)
	for _, x := range r.all {
		r.start(x)
	}
	until(t, "the first document", func() bool { return r.look() > 0 })
	for n := 0; n < r.documents; n = r.look() {
		if time.Since(r.begin) > 10*time.Minute {
			t.Fatalf("%d of %d documents were counted in ten minutes", n, r.documents)
		}
		<-time.After(200 * time.Millisecond)
	}
	last := r.seen[len(r.seen)-1]
	half := r.seen[len(r.seen)/2]
	whole := float64(last.documents-half.documents) * ratedSize / (last.from - half.to).Seconds()
	t.Logf("%d documents in %.0f s, ideally %.0f; %.2f MB/s in the second half; at most %.2f MB beyond the rate in any time", last.documents, last.to.Seconds(),
		float64(r.documents)*ratedSize/r.rate, whole/1e6, r.excess()/1e6)
	if whole < 0.85*r.rate {
		t.Errorf("%.2f MB/s in the second half, want %.2f", whole/1e6, r.rate/1e6)
	}
	if limit := r.rate + 12*ratedSize; r.excess() > limit {
		t.Errorf("%.2f MB beyond the rate, want at most %.2f", r.excess()/1e6, limit/1e6)
	}
}

// TestTheRateIsSetWhileNodesRun: two nodes send as fast as an operator has set, by the target's count, also after one of them was killed and
// started again with its own --max-rate, until the limit is removed.
func TestTheRateIsSetWhileNodesRun(t *testing.T) {
	r := newRated(t, 2, 8, 1000, 1)
	for _, x := range r.all {
		r.start(x)
	}
	until(t, "the first document", func() bool { return r.look() > 0 })
	set := func(value, shown string) {
		t.Helper()
		if res := r.ctl(r.all[1], "set", "max-rate", value); res.Code != 0 || !strings.HasPrefix(res.Stdout, "max-rate is set to "+value) {
			t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
		for _, x := range r.all {
			until(t, "the status shows it", func() bool {
				res := r.ctl(x, "status")
				return strings.Contains(res.Stdout, "intent: run, "+shown+"; last order by operator op")
			})
		}
	}
	sends := func(megabytes float64) {
		t.Helper()
		<-time.After(6 * time.Second)                                      // renewals of the permits
		until(t, fmt.Sprintf("%.0f MB/s arrive", megabytes), func() bool { // at the latest when the permit of a killed node is over
			from := r.look()
			begin := time.Now()
			<-time.After(6 * time.Second)
			mean := float64(r.look()-from) * ratedSize / time.Since(begin).Seconds() / 1e6
			t.Logf("%.2f MB/s of %.2f", mean, megabytes)
			if mean > 1.3*megabytes {
				t.Errorf("%.2f MB/s arrive, want %.2f", mean, megabytes)
			}
			return mean > 0.6*megabytes
		})
	}
	set("4MB", "max-rate 4000000")
	sends(4)
	must(t, r.all[0].cmd.Process.Kill())
	_ = r.all[0].cmd.Wait()
	r.start(r.all[0])
	until(t, "the node works again", func() bool { s, ok := r.ask(r.all[0]); return ok && s.Node.Running > 0 })
	set("2MB", "max-rate 2000000")
	sends(2)
	set("0", "max-rate 0")
	begin := time.Now()
	r.complete(func() {})
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("without a limit it took %v", took)
	}
	if !r.whole() {
		t.Error("documents are missing")
	}
	if res := r.ctl(r.all[0], "events"); !strings.Contains(res.Stdout, "set max-rate 2000000 by ") {
		t.Errorf("no event of it:\n%s", res.Stdout)
	}
}
