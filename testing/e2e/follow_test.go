package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// followArgs are the arguments of a round of a history: snap-1 is its first snapshot, snap-3 its last. In between, documents of the index
// grows were changed, leaves was deleted, and again was deleted and made anew.
func followArgs(url, repo, snapshot string, more ...string) []string {
	return append([]string{"follow", "--once", "--repo-uri", repo, "--snapshot-name", snapshot, "--target-host", url, "--output", "json", "--session-name", "chain"}, more...)
}

// holds compares a target with a snapshot of a history.
func holds(t *testing.T, n *cluster.Node, repo, snapshot string) {
	t.Helper()
	want, err := truth.Load(false, repo+"."+snapshot+".ndjson.gz")
	must(t, err)
	if f := truth.Compare(withoutLeaves(want), withoutLeaves(landed(t, n))).Faults(); f != "" {
		t.Errorf("after %s: %s", snapshot, f)
	}
}

// withoutLeaves returns documents without their mapping types, and without those of the index that vanishes.
func withoutLeaves(all truth.Docs) truth.Docs {
	some := truth.Docs{}
	for k, source := range all {
		if k.Type = ""; k.Index != "leaves" {
			some[k] = source
		}
	}
	return some
}

// round runs a round and returns its report.
func round(t *testing.T, dir string, args []string) summary {
	t.Helper()
	r := RunIn(t, dir, nil, "rfsd", args...)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	return parseSummary(t, r)
}

// TestFollow_RoundsBringTheTargetToEachSnapshot follows histories of several versions.
func TestFollow_RoundsBringTheTargetToEachSnapshot(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, name := range draw.Of(t, 2, []string{"7.10.2-history", "2.4.6-history", "8.19.21-history", "os2.19.4-history"}) {
		t.Run(name, func(t *testing.T) {
			wipe(t, n)
			repo, dir := fixture(t, name), t.TempDir()
			if sum := round(t, dir, followArgs(n.URL, repo, "snap-1")); sum.Round.Number != 0 || !sum.Round.Arrived || sum.Totals.Indexed != 120 {
				t.Errorf("round 0: %+v", sum)
			}
			holds(t, n, repo, "snap-1")
			want := changes{Inserted: 7, Updated: 12, Deleted: 42, Unchanged: 19} // again is sent as a whole, with 33 deletions
			changed := RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3")...)
			sum := parseSummary(t, changed)
			if changed.Code != 0 || strings.Contains(changed.Stdout, "not of the round") {
				t.Errorf("exit %d: %s %s", changed.Code, changed.Stdout, changed.Stderr)
			}
			if sum.Round.Number != 1 || sum.Round.Since != "snap-1" || !sum.Round.Arrived || sum.Changes != want || sum.Totals.Failed != 0 {
				t.Errorf("round 1: %+v, %+v", sum.Round, sum.Changes)
			}
			for _, x := range sum.Indices {
				if x.Index == "grows" && (x.Indexed != 21 || x.Kept != 0) { // 12 updated and 9 deleted
					t.Errorf("of grows %d documents were sent, %d refused", x.Indexed, x.Kept)
				}
			}
			holds(t, n, repo, "snap-3")

			p := newProxy(t, n.URL, 0)
			again := RunIn(t, dir, nil, "rfsd", followArgs(p.URL, repo, "snap-3")...)
			if again.Code != 0 || parseSummary(t, again).Round != sum.Round || p.bulks.Load() > 0 {
				t.Errorf("again: exit %d: %s %s, %d bulk requests", again.Code, again.Stdout, again.Stderr, p.bulks.Load())
			}
			refusedWith(t, RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-1")...), "snap-1 was not made after snap-3")
			refusedWith(t, RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-4")...), "no snapshot", "snap-4")
			refusedWith(t, RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3", "--index-allowlist", "grows")...), "another migration", "index-allowlist")
			holds(t, n, repo, "snap-3")
		})
	}
}

// gcDeletes returns the setting index.gc_deletes of an index.
func gcDeletes(t *testing.T, n *cluster.Node, index string) any {
	t.Helper()
	settings := call(t, n, "GET", "/"+index+"/_settings?flat_settings=true", nil)[index].(map[string]any)["settings"].(map[string]any)
	return settings["index.gc_deletes"]
}

// TestFollow_FinishRestoresSettings ends following; no round starts afterwards.
func TestFollow_FinishRestoresSettings(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	round(t, dir, followArgs(n.URL, repo, "snap-1"))
	call(t, n, "PUT", "/leaves/_settings", map[string]any{"index.gc_deletes": "7m"})
	if v := gcDeletes(t, n, "grows"); v != "1441m" {
		t.Errorf("gc_deletes is %v while the target follows", v)
	}
	finish := followArgs(n.URL, repo, "snap-3", "--finish")
	finish[1] = "--every=1m"
	for range 2 {
		if r := RunIn(t, dir, nil, "rfsd", finish...); r.Code != 0 {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	if a, b := gcDeletes(t, n, "grows"), gcDeletes(t, n, "leaves"); a != nil || b != "7m" {
		t.Errorf("gc_deletes is %v, and %v where another client has set 7m", a, b)
	}
	refusedWith(t, RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3")...), "was finished", "--session-name")
	holds(t, n, repo, "snap-1")
}

// TestFollow_KilledRoundsLoseNothing kills each round after every few requests.
func TestFollow_KilledRoundsLoseNothing(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	p := newProxy(t, n.URL, 20*time.Millisecond)
	for i, snapshot := range []string{"snap-1", "snap-3"} {
		args := followArgs(p.URL, repo, snapshot, "--documents-per-bulk-request", "3", "--slots", "2", "--max-connections", "2")
		for range 3 {
			before := p.bulks.Load()
			killAfter(t, dir, args, func() bool { return p.bulks.Load() >= before+2 })
		}
		p.delay.Store(0)
		if sum := round(t, dir, args); sum.Round.Number != i || !sum.Round.Arrived {
			t.Errorf("round %d: %+v", i, sum.Round)
		}
		p.delay.Store(int64(20 * time.Millisecond))
		holds(t, n, repo, snapshot)
	}
}

// TestFollow_FailedDocumentsKeepTheirRound: documents that failed in round 0 are sent again after round 1, which has changed some of them.
func TestFollow_FailedDocumentsKeepTheirRound(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/grows", map[string]any{"settings": map[string]any{"number_of_replicas": 0}, "mappings": map[string]any{"dynamic": "strict", "properties": map[string]any{"n": map[string]any{"type": "long"}}}})
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	if r := RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-1")...); r.Code != 6 || parseSummary(t, r).Totals.Failed != 40 {
		t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	call(t, n, "PUT", "/grows/_mapping", map[string]any{"dynamic": true})
	round(t, dir, followArgs(n.URL, repo, "snap-3"))
	again := RunIn(t, dir, nil, "rfsd", "redrive", "--repo-uri", repo, "--target-host", n.URL, "--session-name", "chain", "--index-allowlist", "grows")
	if again.Code != 0 {
		t.Errorf("redrive: exit %d: %s %s", again.Code, again.Stdout, again.Stderr)
	}
	holds(t, n, repo, "snap-3")

	// The migration of the first snapshot cannot be run again.
	migrate := followArgs(n.URL, repo, "snap-1")
	migrate[0] = "migrate"
	refusedWith(t, RunIn(t, dir, nil, "rfsd", slices.Delete(migrate, 1, 2)...), "rfsd follow")
}

// TestFollow_UndoRemovesWhatAllRoundsCreated: the session of round 0 has the records of all.
func TestFollow_UndoRemovesWhatAllRoundsCreated(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	for _, snapshot := range []string{"snap-1", "snap-3"} {
		round(t, dir, followArgs(n.URL, repo, snapshot))
	}
	if r := RunIn(t, dir, nil, "rfsctl", "undo", "--target-host", n.URL, "--session-name", "chain", "--yes"); r.Code != 0 {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	if left := landed(t, n); len(left) > 0 {
		t.Errorf("%d documents are left", len(left))
	}
	refusedWith(t, RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3")...), "rfsctl undo", "--session-name")
}

// TestFollow_RulesDecideAboutFormerVersionsToo: updated documents get a value by which rules send them to another index, or leave them out;
// their former versions go.
func TestFollow_RulesDecideAboutFormerVersionsToo(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/moved", map[string]any{"settings": map[string]any{"number_of_replicas": 0}})
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	rules := filepath.Join(dir, "rules.toml")
	must(t, os.WriteFile(rules, []byte(`
[[document]]
match = "grows"
where = { field = "n", gte = 306 }
leave-out = true
[[document]]
match = "grows"
where = { field = "n", gte = 300 }
index = "moved"
`), 0o600))
	for _, snapshot := range []string{"snap-1", "snap-3"} {
		round(t, dir, followArgs(n.URL, repo, snapshot, "--rules", rules))
		all, err := truth.Load(false, repo+"."+snapshot+".ndjson.gz")
		must(t, err)
		want, moved := truth.Docs{}, 0
		for k, source := range withoutLeaves(all) {
			var d struct{ N int }
			must(t, json.Unmarshal(source, &d))
			switch {
			case k.Index != "grows" || d.N < 300:
			case d.N >= 306:
				continue
			default:
				k.Index = "moved"
				moved++
			}
			want[k] = source
		}
		if f := truth.Compare(want, withoutLeaves(landed(t, n))).Faults(); f != "" || (moved > 0) != (snapshot == "snap-3") {
			t.Errorf("after %s, %d documents moved: %s", snapshot, moved, f)
		}
	}
}

// TestFollow_ALivingCluster follows a source that clients write to during the rounds. Each round creates a snapshot and deletes the
// snapshot that is no longer needed; snapshots of others stay.
func TestFollow_ALivingCluster(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, repo := t.TempDir(), filepath.Join(source.Repos, "living")
	call(t, source, "PUT", "/living", map[string]any{"settings": map[string]any{"number_of_shards": 2, "number_of_replicas": 0}})
	put := func(from, to, value int) {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, `{"index":{"_index":"living","_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", i, value)
		}
		if _, err := source.Send(t.Context(), http.MethodPost, "/_bulk", "application/x-ndjson", []byte(b.String())); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"follow", "--once", "--repo-uri", "file://" + repo, "--source-host", source.URL, "--snapshot-repo-name", "rfsd-living", "--target-host", n.URL, "--output", "json", "--session-name", "living",
		"--index-allowlist", "living", "--index-allowlist", "moves"} // other tests use the source, too
	put(0, 300, 0)
	for _, index := range []string{"living", "moves"} {
		call(t, source, "PUT", "/"+index+"/_doc/0", map[string]any{"v": 0})
		call(t, source, "PUT", "/"+index+"/_alias/"+index+"-stays", nil)
	}
	call(t, source, "PUT", "/living/_alias/current", map[string]any{"is_write_index": true})
	round(t, dir, args)
	call(t, n, "PUT", "/living/_alias/theirs", nil)
	call(t, source, "POST", "/_aliases", json.RawMessage(`{"actions":[{"remove":{"index":"living","alias":"current"}},{"add":{"index":"moves","alias":"current","is_write_index":true}},
		{"add":{"index":"moves","alias":"some","filter":{"term":{"v":1}}}}]}`))
	call(t, source, "PUT", "/_snapshot/rfsd-living/theirs?wait_for_completion=true", map[string]any{"indices": "living"})
	for i := 1; i < 4; i++ {
		put(290, 300+10*i, i)
		call(t, source, "DELETE", fmt.Sprintf("/living/_doc/%d", i), nil)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { // documents that no round counts on
			defer close(stopped)
			for v := 0; ; v++ {
				select {
				case <-stop:
					return
				default:
					put(1000, 1010, v)
				}
			}
		}()
		sum := round(t, dir, args)
		close(stop)
		<-stopped
		if sum.Round.Number != i || sum.Changes.Deleted != 1 || sum.Changes.Updated < 10 || sum.Totals.Failed != 0 {
			t.Errorf("round %d: %+v", i, sum)
		}
	}
	want := map[string][]string{"living": {"living-stays", "theirs"}, "moves": {"current", "moves-stays", "some"}}
	for index, names := range want {
		if got := slices.Sorted(maps.Keys(call(t, n, "GET", "/"+index+"/_alias", nil)[index].(map[string]any)["aliases"].(map[string]any))); !slices.Equal(got, names) {
			t.Errorf("%s has the aliases %q, want %q", index, got, names)
		}
	}
	last := round(t, dir, args) // without writes
	if r := verifyChanged(t, dir, "file://"+repo, n.URL, "living", 0); r.Snapshot != last.Round.Snapshot || r.Since != last.Round.Since || r.Since == "" {
		t.Errorf("compared what changed from %q to %q, the last round was %+v", r.Since, r.Snapshot, last.Round)
	}
	call(t, source, "POST", "/_refresh", nil)
	if f := truth.Compare(scrolled(t, source, "/living,moves/_search?scroll=1m&size=500"), landed(t, n)).Faults(); f != "" {
		t.Error(f)
	}
	var left []string
	for _, s := range call(t, source, "GET", "/_snapshot/rfsd-living/_all", nil)["snapshots"].([]any) {
		left = append(left, s.(map[string]any)["snapshot"].(string))
	}
	slices.Sort(left)
	kept := []string{last.Round.Since, last.Round.Snapshot, "theirs"}
	if slices.Sort(kept); !slices.Equal(left, kept) {
		t.Errorf("the source has the snapshots %q, want %q", left, kept)
	}
}

// TestFollow_LateRequestsBringNothingBack sends the requests of both rounds again when both have ended, in the order in which they were
// sent, and the other way round.
func TestFollow_LateRequestsBringNothingBack(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	p := newProxy(t, n.URL, 0)
	var mu sync.Mutex
	var late [][]byte
	p.held = func(_ string, isBulk bool, body []byte) <-chan struct{} {
		if isBulk {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, body)
		}
		return nil
	}
	for _, snapshot := range []string{"snap-1", "snap-3"} {
		round(t, dir, followArgs(p.URL, repo, snapshot, "--disable-compression", "--documents-per-bulk-request", "7"))
	}
	if len(late) < 20 {
		t.Fatalf("%d requests were sent", len(late))
	}
	for i := range 2 * len(late) {
		if i >= len(late) {
			i = 2*len(late) - 1 - i
		}
		if _, err := n.Send(t.Context(), http.MethodPost, "/_bulk", "application/x-ndjson", late[i]); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, n, repo, "snap-3")
}

// TestFollow_AfterAFleet: a daemon has migrated the first snapshot, and a single command continues its session.
func TestFollow_AfterAFleet(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "7.10.2-history"), t.TempDir()
	fleet := RunIn(t, dir, nil, "rfsd", "run", "--exit-when-done", "--workers", "2", "--socket", "off", "--status-socket", "off", "--data-dir", filepath.Join(dir, "data"),
		"--repo-uri", "file://"+repo, "--snapshot-name", "snap-1", "--target-host", n.URL, "--session-name", "chain")
	if fleet.Code != 0 {
		t.Fatalf("exit %d: %s %s", fleet.Code, fleet.Stdout, fleet.Stderr)
	}
	holds(t, n, repo, "snap-1")
	// It waits for two minutes, within which a request of the fleet could arrive.
	r := RunIn(t, dir, nil, "rfsd", "follow", "--once", "--repo-uri", "file://"+repo, "--snapshot-name", "snap-3", "--target-host", n.URL, "--session-name", "chain")
	if r.Code != 0 || !strings.Contains(r.Stdout, "round 1: snapshot snap-3 since snap-1: 7 documents inserted, 12 updated, 42 deleted") {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	holds(t, n, repo, "snap-3")
}

// TestFollow_AnIndexThatComesBack: an index is deleted on the source, and another of its name appears two rounds later. With
// --delete-indices its target index goes with it, unless another client has written to it.
func TestFollow_AnIndexThatComesBack(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprint(deletes), func(t *testing.T) {
			wipe(t, n)
			name := fmt.Sprintf("back-%v", deletes)
			args := []string{"follow", "--once", "--repo-uri", "file://" + filepath.Join(source.Repos, name), "--source-host", source.URL, "--snapshot-repo-name", "rfsd-" + name, "--target-host", n.URL,
				"--output", "json", "--session-name", name, "--index-allowlist", "back-*"}
			if deletes {
				args = append(args, "--delete-indices")
			}
			dir := t.TempDir()
			call(t, n, "PUT", "/"+name+"-before", map[string]any{"settings": map[string]any{"number_of_replicas": 0}})
			for _, index := range []string{name, name + "-theirs", name + "-stays", name + "-before"} {
				for i := range 5 {
					call(t, source, "PUT", fmt.Sprintf("/%s/_doc/%d?refresh=true", index, i), map[string]any{"v": i})
				}
			}
			round(t, dir, args)
			call(t, n, "PUT", "/"+name+"-theirs/_doc/theirs?refresh=true", map[string]any{"v": 1})
			call(t, source, "DELETE", "/"+name, nil)
			call(t, source, "DELETE", "/"+name+"-theirs", nil)
			call(t, source, "DELETE", "/"+name+"-before", nil)
			round(t, dir, args)
			exists := func(index string) bool {
				_, err := n.Send(t.Context(), http.MethodGet, "/"+index, "", nil)
				return err == nil
			}
			if exists(name) == deletes || !exists(name+"-theirs") || !exists(name+"-stays") || !exists(name+"-before") {
				t.Errorf("on the target: %v, %v, %v, %v", exists(name), exists(name+"-theirs"), exists(name+"-stays"), exists(name+"-before"))
			}
			round(t, dir, args)
			for _, index := range []string{name, name + "-before"} {
				call(t, source, "PUT", "/"+index+"/_doc/2?refresh=true", map[string]any{"other": 2})
			}
			if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 7 || !strings.Contains(r.Stdout, "which the session did not create and cannot replace") {
				t.Errorf("a target index of others: exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
			}
			call(t, n, "DELETE", "/"+name+"-before", nil)
			round(t, dir, args)
			call(t, n, "POST", "/_refresh", nil)
			path := "/" + name + "," + name + "-before/_search?scroll=1m&size=500"
			if f := truth.Compare(scrolled(t, source, path), scrolled(t, n, path)).Faults(); f != "" {
				t.Error(f)
			}
			for _, index := range []string{name, name + "-stays", name + "-before"} {
				call(t, source, "DELETE", "/"+index, nil)
			}
		})
	}
}

// TestFollow_ADamagedShardStopsItsIndexOnly: the operator ends following the index, and the others are followed further.
func TestFollow_ADamagedShardStopsItsIndexOnly(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(repo, os.DirFS(fixture(t, "7.10.2-history"))))
	lists, err := filepath.Glob(filepath.Join(repo, "index-*"))
	must(t, err)
	body, err := os.ReadFile(lists[len(lists)-1])
	must(t, err)
	var list struct {
		Indices map[string]struct{ ID string }
	}
	must(t, json.Unmarshal(body, &list))
	round(t, dir, followArgs(n.URL, repo, "snap-1"))
	blobs, err := filepath.Glob(filepath.Join(repo, "indices", list.Indices["grows"].ID, "0", "__*"))
	if must(t, err); len(blobs) == 0 {
		t.Fatal("the shard has no files")
	}
	for _, blob := range blobs {
		must(t, os.Remove(blob))
	}
	for range 2 {
		if r := RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3")...); r.Code != 7 || parseSummary(t, r).Round.Arrived {
			t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
		}
	}
	if r := RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3", "--stop-following", "gro*")...); r.Code != 7 || !parseSummary(t, r).Round.Arrived {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	if again := RunIn(t, dir, nil, "rfsd", followArgs(n.URL, repo, "snap-3")...); again.Code != 0 || !parseSummary(t, again).Round.Arrived {
		t.Errorf("again: exit %d: %s %s", again.Code, again.Stdout, again.Stderr)
	}
	if r := RunIn(t, dir, nil, "rfsctl", "status", "--target-host", n.URL, "--session-name", "chain"); !strings.Contains(r.Stdout, "not followed any more: 1 of") {
		t.Errorf("%s", r.Stdout)
	}
	want, err := truth.Load(false, fixture(t, "7.10.2-history")+".snap-3.ndjson.gz")
	must(t, err)
	before, err := truth.Load(false, fixture(t, "7.10.2-history")+".snap-1.ndjson.gz")
	must(t, err)
	for k := range want {
		if k.Index == "grows" {
			delete(want, k)
		}
	}
	for k, source := range before {
		if k.Index == "grows" { // its target index stays as it was
			want[k] = source
		}
	}
	if f := truth.Compare(withoutLeaves(want), withoutLeaves(landed(t, n))).Faults(); f != "" {
		t.Error(f)
	}
}
