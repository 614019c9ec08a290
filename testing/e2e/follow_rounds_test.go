package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// followLive are the arguments of a round that makes its own snapshot of the indices of a pattern.
func followLive(source *cluster.Node, session, url, pattern string, more ...string) []string {
	return append([]string{"follow", "--once", "--repo-uri", "file://" + filepath.Join(source.Repos, session), "--source-host", source.URL, "--snapshot-repo-name", "rfsd-" + session,
		"--target-host", url, "--output", "json", "--session-name", session, "--index-allowlist", pattern}, more...)
}

// same compares the documents of two nodes behind a pattern.
func same(t *testing.T, source, n *cluster.Node, pattern string) {
	t.Helper()
	for _, x := range []*cluster.Node{source, n} {
		call(t, x, "POST", "/"+pattern+"/_refresh", nil)
	}
	path := "/" + pattern + "/_search?scroll=1m&size=500"
	want := scrolled(t, source, path)
	if f := truth.Compare(want, scrolled(t, n, path)).Faults(); f != "" || len(want) == 0 {
		t.Errorf("%d documents: %s", len(want), f)
	}
}

// TestFollow_UnchangedIndicesAreLeftAlone: a round asks the target for all of them together and sends them nothing. One whose target index
// is gone is named.
func TestFollow_UnchangedIndicesAreLeftAlone(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	var mu sync.Mutex
	var asked []string
	p := newProxy(t, n.URL, 0)
	p.before = func(path string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(path, "/still-") {
			asked = append(asked, path)
		}
	}
	for i := range 4 {
		call(t, source, "PUT", fmt.Sprintf("/still-%d/_doc/1?refresh=true", i), map[string]any{"v": i})
	}
	dir, args := t.TempDir(), followLive(source, "still", p.URL, "still-*")
	round(t, dir, args)
	for i := range 2 {
		call(t, source, "PUT", fmt.Sprintf("/still-0/_doc/%d?refresh=true", 2+i), map[string]any{"v": 1})
		mu.Lock()
		asked = nil
		mu.Unlock()
		sum := round(t, dir, args)
		if len(sum.Indices) != 1 || sum.Indices[0].Index != "still-0" || sum.Changes.Inserted != 1 || !sum.Round.Arrived {
			t.Errorf("%+v", sum)
		}
		for _, path := range asked {
			if strings.Contains(path, "still-1") && strings.Count(path, "still-") < 3 || strings.HasPrefix(path, "/still-1/_doc") {
				t.Errorf("round %d: request for an unchanged index: %s", sum.Round.Number, path)
			}
		}
		same(t, source, n, "still-*")
	}
	sum := round(t, dir, args) // nothing has changed at all
	if len(sum.Indices) != 0 || !sum.Round.Arrived {
		t.Errorf("%+v", sum)
	}
	call(t, n, "DELETE", "/still-2", nil)
	if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 7 || !strings.Contains(r.Stdout, "still-2, which former rounds have filled, is gone") {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	call(t, source, "DELETE", "/still-*", nil)
}

// TestFollow_OtherClientsWrite: a round that meets their documents is refused until it is chosen what becomes of them. What rfsd redrive
// delivers is not theirs.
func TestFollow_OtherClientsWrite(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, args := t.TempDir(), followLive(source, "beside", n.URL, "beside-*")
	put := func(x *cluster.Node, path string, v any) {
		call(t, x, "PUT", path+"?refresh=true", map[string]any{"v": v})
	}
	for _, index := range []string{"a", "b"} {
		put(source, "/beside-"+index+"/_doc/1", 1)
	}
	round(t, dir, args)
	put(n, "/beside-a/_doc/theirs", 1)
	put(source, "/beside-b/_doc/2", 2)
	round(t, dir, args) // which sends nothing to a
	put(source, "/beside-a/_doc/2", 2)
	refused := RunIn(t, dir, nil, "rfsd", args...)
	refusedWith(t, refused, "other clients have written to the target", "beside-a", "--existing-documents overwrite")
	refusedWith(t, RunIn(t, dir, nil, "rfsd", args...), "beside-a")
	if sum := round(t, dir, append(args, "--existing-documents", "overwrite")); sum.Changes.Inserted != 1 {
		t.Errorf("%+v", sum.Changes)
	}
	call(t, n, "DELETE", "/beside-a/_doc/theirs?refresh=true", nil)
	same(t, source, n, "beside-*")

	put(source, "/beside-b/_doc/4", 4)
	call(t, n, "PUT", "/_ingest/pipeline/refuses", map[string]any{"processors": []any{map[string]any{"fail": map[string]any{"message": "no"}}}})
	call(t, n, "PUT", "/beside-b/_settings", map[string]any{"index.final_pipeline": "refuses"})
	failed := RunIn(t, dir, nil, "rfsd", args...)
	if failed.Code != 6 {
		t.Fatalf("exit %d: %s %s", failed.Code, failed.Stdout, failed.Stderr)
	}
	call(t, n, "PUT", "/beside-b/_settings", map[string]any{"index.final_pipeline": nil})
	session := fmt.Sprintf("beside-round-%d", parseSummary(t, failed).Round.Number)
	if r := RunIn(t, dir, nil, "rfsd", "redrive", "--target-host", n.URL, "--session-name", session); r.Code != 0 {
		t.Errorf("redrive: exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	put(source, "/beside-b/_doc/5", 5)
	round(t, dir, args)
	same(t, source, n, "beside-*")
	call(t, source, "DELETE", "/beside-*", nil)
}

// TestFollow_OtherClientsWriteWithinARound: documents that another client writes when a round has started are counted. One with a higher
// version of its own is not replaced, and listed.
func TestFollow_OtherClientsWriteWithinARound(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p, dir := newProxy(t, n.URL, 0), t.TempDir()
	args := followLive(source, "within", p.URL, "within-*")
	put := func(x *cluster.Node, path string, v any) { call(t, x, "PUT", path, map[string]any{"v": v}) }
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/within-a", "", nil)
	})
	for id := range 3 {
		put(source, fmt.Sprintf("/within-a/_doc/%d", id), 0)
	}
	round(t, dir, args)
	for id := range 3 {
		put(source, fmt.Sprintf("/within-a/_doc/%d", id), 1)
	}
	var theirs sync.Once
	p.held = func(_ string, isBulk bool, _ []byte) <-chan struct{} {
		if isBulk {
			theirs.Do(func() {
				put(n, "/within-a/_doc/theirs", 7)
				put(n, "/within-a/_doc/0", 7)
				put(n, "/within-a/_doc/1?version=900000000000000000&version_type=external", 7)
			})
		}
		return nil
	}
	r := RunIn(t, dir, nil, "rfsd", args...)
	if r.Code != 6 || !strings.Contains(r.Stdout, "3 operations on it during this round are not of the round") {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	failed := RunIn(t, dir, nil, "rfsctl", "failures", "--target-host", n.URL, "--session-name", "within-round-1")
	if !strings.Contains(failed.Stdout, "version_conflict_engine_exception") {
		t.Errorf("exit %d: %s %s", failed.Code, failed.Stdout, failed.Stderr)
	}
	for id, want := range map[string]string{"0": "1", "1": "7", "2": "1", "theirs": "7"} {
		if got := fmt.Sprint(call(t, n, "GET", "/within-a/_doc/"+id, nil)["_source"].(map[string]any)["v"]); got != want {
			t.Errorf("document %s: %s, want %s", id, got, want)
		}
	}
	p.held = nil
	put(source, "/within-a/_doc/2", 2)
	if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 0 || strings.Contains(r.Stdout, "not of the round") || parseSummary(t, r).Changes.Updated != 1 {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestFollow_SettingsFollow: settings that the source changes between rounds are changed on the target, unless another client has changed
// them there.
func TestFollow_SettingsFollow(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, args := t.TempDir(), followLive(source, "settings", n.URL, "settings-*")
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/settings-*", "", nil)
	})
	for _, index := range []string{"settings-a", "settings-b"} {
		call(t, source, "PUT", "/"+index, map[string]any{"settings": map[string]any{"number_of_replicas": 0, "refresh_interval": "5s"}})
		call(t, source, "PUT", "/"+index+"/_doc/1", map[string]any{"v": 1})
	}
	round(t, dir, args)
	changed := map[string]any{"index.refresh_interval": "30s", "index.mapping.total_fields.limit": 1500, "index.number_of_replicas": 1, "index.max_result_window": 20000}
	for _, index := range []string{"settings-a", "settings-b"} {
		call(t, source, "PUT", "/"+index+"/_settings", changed)
	}
	call(t, n, "PUT", "/settings-b/_settings", map[string]any{"index.refresh_interval": "7s"})
	round(t, dir, args)
	for index, refresh := range map[string]string{"settings-a": "30s", "settings-b": "7s"} {
		got := call(t, n, "GET", "/"+index+"/_settings?flat_settings=true", nil)[index].(map[string]any)["settings"].(map[string]any)
		if got["index.refresh_interval"] != refresh || got["index.mapping.total_fields.limit"] != "1500" || got["index.number_of_replicas"] != "1" || got["index.max_result_window"] != "20000" || got["index.gc_deletes"] != "1441m" {
			t.Errorf("%s has the settings %v", index, got)
		}
	}
}

// TestFollow_Rollovers: an alias and a data stream get new indices on the source. The target's aliases write to the new ones.
func TestFollow_Rollovers(t *testing.T) {
	source, n := livingSource(t, "os1.3.14"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, source, "PUT", "/_index_template/turns", map[string]any{"index_patterns": []string{"turns-stream"}, "data_stream": map[string]any{}})
	t.Cleanup(func() {
		for _, path := range []string{"/_data_stream/turns-stream", "/_index_template/turns", "/turns-*"} {
			_, _ = source.Send(t.Context(), http.MethodDelete, path, "", nil)
		}
	})
	call(t, source, "PUT", "/turns-000001", map[string]any{"aliases": map[string]any{"turns": map[string]any{"is_write_index": true}}})
	add := func(i int) {
		call(t, source, "POST", "/turns/_doc?refresh=true", map[string]any{"v": i})
		call(t, source, "POST", "/turns-stream/_doc?refresh=true", map[string]any{"@timestamp": 1700000000000 + i})
	}
	dir, args := t.TempDir(), followLive(source, "turns", n.URL, "*turns-*")
	add(0)
	round(t, dir, args)
	for i := 1; i < 4; i++ {
		if i != 2 { // then the former write index does not change
			add(i)
		}
		call(t, source, "POST", "/turns/_rollover", nil)
		call(t, source, "POST", "/turns-stream/_rollover", nil)
		add(10 + i)
		sum := round(t, dir, args)
		if !sum.Round.Arrived || sum.Totals.Failed != 0 {
			t.Errorf("round %d: %+v", i, sum.Round)
		}
		for alias, want := range map[string]string{"turns": fmt.Sprintf("turns-%06d", i+1), "turns-stream": fmt.Sprintf(".ds-turns-stream-%06d", i+1)} {
			var writes []string
			for index, x := range call(t, n, "GET", "/_alias/"+alias, nil) {
				if x.(map[string]any)["aliases"].(map[string]any)[alias].(map[string]any)["is_write_index"] == true {
					writes = append(writes, index)
				}
			}
			if !slices.Equal(writes, []string{want}) {
				t.Errorf("round %d: the alias %s writes to %q, want %s", i, alias, writes, want)
			}
		}
		same(t, source, n, "turns,turns-stream")
	}
}

// TestFollow_AFailoverOfTheSource: the node with the primary shard dies, a replica with other segments takes its place, and rounds send
// what changed and nothing else.
func TestFollow_AFailoverOfTheSource(t *testing.T) {
	if os.Getenv("RFSD_CLUSTERS") == "" {
		t.Skip("RFSD_CLUSTERS=1 boots a source of three nodes")
	}
	repos, err := os.MkdirTemp("", "rfsd-failover-") // the servers run as another user
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(repos)) })
	must(t, os.Chmod(repos, 0o777))
	nodes, n := cluster.OpenSearchNodes(t, "1.3.14", 3, cluster.RepoDir(repos)), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	source := nodes[0]
	call(t, source, "PUT", "/fails", map[string]any{"settings": map[string]any{"number_of_shards": 1, "number_of_replicas": 1}})
	write := func(from, to, value int) {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, `{"index":{"_index":"fails","_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", i, value)
		}
		_, err := source.Send(t.Context(), http.MethodPost, "/_bulk?refresh=true", "application/x-ndjson", []byte(b.String()))
		must(t, err)
	}
	for i := range 5 { // so that the replica has segments of its own
		write(200*i, 200*i+200, 0)
	}
	call(t, source, "GET", "/_cluster/health/fails?wait_for_status=green&timeout=60s", nil)
	args := func() []string {
		a := followLive(source, "fails", n.URL, "fails")
		a[3] = "file://" + repos
		return a
	}
	dir := t.TempDir()
	if sum := round(t, dir, args()); sum.Totals.Indexed != 1000 {
		t.Fatalf("%+v", sum.Totals)
	}
	write(990, 1010, 1) // in progress when the node dies
	var primary []struct{ Prirep, IP, Node string }
	must(t, source.JSON(t.Context(), http.MethodGet, "/_cat/shards/fails?format=json&h=prirep,node", nil, &primary))
	for _, shard := range primary {
		if shard.Prirep != "p" {
			continue
		}
		for i, x := range nodes {
			var info struct{ Name string }
			must(t, x.JSON(t.Context(), http.MethodGet, "/", nil, &info))
			if info.Name == shard.Node {
				x.Kill()
				source = nodes[(i+1)%len(nodes)]
				break
			}
		}
		break
	}
	until(t, "a replica is the primary shard", func() bool {
		_, err := source.Send(t.Context(), http.MethodPut, "/fails/_doc/5?refresh=true", "application/json", []byte(`{"v":2}`))
		return err == nil
	})
	call(t, source, "DELETE", "/fails/_doc/7?refresh=true", nil)
	sum := round(t, dir, args())
	if c := sum.Changes; c.Inserted != 10 || c.Updated != 11 || c.Deleted != 1 || sum.Totals.Indexed != 22 {
		t.Errorf("%+v, %+v", sum.Changes, sum.Totals)
	}
	same(t, source, n, "fails")
	if sum := round(t, dir, args()); !sum.Round.Arrived || sum.Changes.Inserted+sum.Changes.Updated+sum.Changes.Deleted != 0 {
		t.Errorf("%+v", sum.Changes)
	}
}

// TestFollow_SnapshotsLeaveOutWhatIsNotFollowed: the snapshots of rounds hold new indices, and not the ones whose following has ended, also
// when these are gone from the source.
func TestFollow_SnapshotsLeaveOutWhatIsNotFollowed(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	args := []string{"follow", "--once", "--repo-uri", "file://" + filepath.Join(source.Repos, "leaves"), "--source-host", source.URL, "--snapshot-repo-name", "rfsd-leaves", "--target-host", n.URL,
		"--output", "json", "--session-name", "leaves", "--index-allowlist", "leaves-*"}
	put := func(index string) {
		call(t, source, "PUT", "/"+index+"/_doc/1?refresh=true", map[string]any{"v": 1})
		t.Cleanup(func() { _, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/"+index, "", nil) })
	}
	put("leaves-soon")
	put("leaves-never")
	round(t, dir, args)
	round(t, dir, append(slices.Clone(args), "--stop-following", "leaves-soon")) // which has not changed
	for i, want := range [][]string{{"leaves-never", "leaves-new"}, {"leaves-never", "leaves-new", "leaves-newer"}} {
		put([]string{"leaves-new", "leaves-newer"}[i])
		if i > 0 {
			call(t, source, "DELETE", "/leaves-soon", nil)
		}
		sum := round(t, dir, args)
		made := call(t, source, "GET", "/_snapshot/rfsd-leaves/"+sum.Round.Snapshot, nil)["snapshots"].([]any)[0].(map[string]any)
		var got []string
		for _, name := range made["indices"].([]any) {
			if strings.HasPrefix(name.(string), "leaves-") {
				got = append(got, name.(string))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the snapshot of round %d holds %q, want %q", sum.Round.Number, got, want)
		}
		for _, index := range want {
			call(t, n, "GET", "/"+index+"/_doc/1", nil)
		}
	}
}
