package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// TestCutover_InGroups cuts over one index, which applications write to on the target from then on, and the others later.
func TestCutover_InGroups(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	f := follows(t, "7.10.2", "cut-first", n.URL, n, "--block-source-writes", "--index-allowlist", "cut-second")
	if _, err := f.source.Send(t.Context(), http.MethodDelete, "/cut-second", "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
		t.Fatal(err)
	}
	first, second := write(t, f.source, "cut-first"), write(t, f.source, "cut-second")
	time.Sleep(8 * time.Second)
	r, x := f.cutover(t, "--block-source-writes", "--indices", "cut-f*")
	if first.end(); r.Code != 0 || len(x.Cutover.Blocks) != 1 || !blockedWrites(t, f.source, "cut-first") || blockedWrites(t, f.source, "cut-second") {
		f.kill()
		t.Fatalf("exit %d: %s %s\n%s", r.Code, r.Stdout, r.Stderr, f.log)
	}
	f.equal(t, "cut-first")
	call(t, n, "PUT", "/cut-first/_doc/new?refresh=true", map[string]any{"written": "on the target"})
	call(t, n, "PUT", "/cut-first/_doc/5?refresh=true", map[string]any{"written": "on the target"})
	call(t, f.source, "PUT", "/cut-first/_settings", map[string]any{"index.blocks.write": nil})
	call(t, f.source, "PUT", "/cut-first/_doc/5", map[string]any{"written": "on the source"})
	acked := second.acked.Load()
	time.Sleep(6 * time.Second)
	if second.acked.Load() == acked {
		t.Error("no write to the other index is acknowledged")
	}
	r, x = f.cutover(t, "--block-source-writes")
	if second.end(); r.Code != 0 || len(x.Cutover.Blocks) != 1 || blockedWrites(t, f.source, "cut-first") {
		f.kill()
		t.Fatalf("exit %d: %s %s\n%s", r.Code, r.Stdout, r.Stderr, f.log)
	}
	f.equal(t, "cut-second")
	for _, id := range []string{"new", "5"} {
		if got := call(t, n, "GET", "/cut-first/_doc/"+id, nil)["_source"].(map[string]any)["written"]; got != "on the target" {
			t.Errorf("document %s: %v", id, got)
		}
	}
}

// TestCutover_GroupsKeepTheirBases: the last snapshots of a group have its indices alone. Whether its cut-over returns or is done, the next
// round compares each index with the snapshot that brought it last. Settings, replicas and aliases that the source changes until the last
// snapshot arrive with it.
func TestCutover_GroupsKeepTheirBases(t *testing.T) {
	for _, version := range draw.Of(t, 1, []string{"5.6.16", "7.10.2", "9.5.3", "os3.8.0"}) {
		t.Run(version, func(t *testing.T) { keepsBases(t, livingSource(t, version)) })
	}
}

func keepsBases(t *testing.T, source *cluster.Node) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, args := t.TempDir(), followLive(source, "groups", n.URL, "groups-*", "--block-source-writes")
	door := newProxy(t, source.URL, 0)
	args[slices.Index(args, source.URL)] = door.URL
	var late sync.Once
	door.before = func(path string) { // the round before the block has arrived, and the last one has not started
		if path == "/groups-a/_block/write" || path == "/groups-a/_settings" {
			late.Do(func() {
				call(t, source, "PUT", "/groups-a/_settings", map[string]any{"index.refresh_interval": "33s", "index.max_result_window": 20000, "index.number_of_replicas": 2})
				call(t, source, "PUT", "/groups-a/_alias/groups-alias", nil)
			})
		}
	}
	fill := func(index string, ids ...int) {
		t.Helper()
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, `{"index":{"_index":%q,"_type":"doc","_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", index, id, id)
		}
		body := b.String()
		if source.Product != "elasticsearch" || source.Version >= "7" {
			body = strings.ReplaceAll(body, `,"_type":"doc"`, "")
		}
		_, err := source.Send(t.Context(), http.MethodPost, "/_bulk?refresh=true", "application/x-ndjson", []byte(body))
		must(t, err)
	}
	empty := func(index string) {
		t.Helper()
		hits := call(t, source, "GET", "/"+index+"/_search?size=10000&_source=false", nil)["hits"].(map[string]any)["hits"].([]any)
		var b strings.Builder
		for _, hit := range hits {
			is := hit.(map[string]any)
			of := map[string]any{"_index": index, "_id": is["_id"]}
			if source.Product == "elasticsearch" && source.Version < "7" {
				of["_type"] = is["_type"]
			}
			line, err := json.Marshal(map[string]any{"delete": of})
			must(t, err)
			b.Write(append(line, '\n'))
		}
		_, err := source.Send(t.Context(), http.MethodPost, "/_bulk?refresh=true", "application/x-ndjson", []byte(b.String()))
		must(t, err)
	}
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/groups-*", "", nil)
	})
	// made returns the snapshots of the session with the indices that they have, in order of their rounds.
	made := func() (all []string) {
		for _, s := range call(t, source, "GET", "/_snapshot/rfsd-groups/_all", nil)["snapshots"].([]any) {
			of := s.(map[string]any)["indices"].([]any)
			names := make([]string, len(of))
			for i, x := range of {
				names[i] = strings.TrimPrefix(x.(string), "groups-")
			}
			slices.Sort(names)
			all = append(all, strings.Join(names, " "))
		}
		return all
	}
	cut := func(more ...string) Result {
		t.Helper()
		order := RunIn(t, dir, nil, "rfsctl", append([]string{"cutover", "--target-host", n.URL, "--session-name", "groups", "--indices", "groups-a*", "--no-wait"}, more...)...)
		if order.Code != 4 {
			t.Fatalf("exit %d: %s %s", order.Code, order.Stdout, order.Stderr)
		}
		return RunIn(t, dir, nil, "rfsd", args...)
	}
	fill("groups-a", 1, 2, 3)
	fill("groups-b", 1, 2, 3)
	fill("other", 1)
	round(t, dir, args)
	round(t, dir, args)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // writes that nobody ends: the source holds more than each snapshot
		defer close(stopped)
		for id := 100; ; id++ {
			select {
			case <-stop:
				return
			default:
				fill("groups-a", id)
				fill("groups-b", id)
			}
		}
	}()
	r := cut()
	close(stop)
	<-stopped
	if r.Code != 1 || !strings.Contains(r.Stderr, "the source holds what 3 snapshots lack") {
		t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	if got := made(); len(got) < 3 || !slices.Equal(got[len(got)-2:], []string{"a", "a"}) || !strings.Contains(got[0], "a b") {
		t.Errorf("the snapshots have the indices %q", got)
	}
	empty("groups-a") // documents, too, that the rounds of the group have brought
	fill("groups-a", 7)
	empty("groups-b")
	fill("groups-b", 8)
	round(t, dir, args)
	same(t, source, n, "groups-*")

	fill("groups-b", 9)
	if r := cut("--block-source-writes"); r.Code != 0 || !strings.Contains(r.Stdout, "FINISHING") && !strings.Contains(r.Stdout, "DONE") {
		t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	is := call(t, n, "GET", "/groups-a?flat_settings=true", nil)["groups-a"].(map[string]any)
	settings := is["settings"].(map[string]any)
	if settings["index.refresh_interval"] != "33s" || settings["index.max_result_window"] != "20000" || settings["index.number_of_replicas"] != "2" || is["aliases"].(map[string]any)["groups-alias"] == nil {
		t.Errorf("the target has %v, %v", settings, is["aliases"])
	}
	empty("groups-b")
	fill("groups-b", 10)
	round(t, dir, args)
	round(t, dir, args)
	same(t, source, n, "groups-*")
	if got := made(); len(got) != 2 || slices.Contains(strings.Fields(got[0]), "a") || !slices.Contains(strings.Fields(got[0]), "b") {
		t.Errorf("the snapshots have the indices %q", got)
	}
}
