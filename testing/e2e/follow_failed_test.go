package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_ASnapshotThatFails: a round whose snapshot fails, also twice, arrives when the same command runs again after the cause is
// repaired, and no failed snapshot stays on the source.
func TestFollow_ASnapshotThatFails(t *testing.T) {
	source, n := livingSource(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/fails-*", "", nil)
	})
	write := func(id string) { call(t, source, "PUT", "/fails-a/_doc/"+id+"?refresh=true", map[string]any{"v": id}) }
	write("1")
	dir, args := t.TempDir(), followLive(source, "fails", n.URL, "fails-*")
	round(t, dir, args)
	write("2")
	call(t, source, "PUT", "/fails-red?wait_for_active_shards=0", map[string]any{"settings": map[string]any{"index.number_of_replicas": 0, "index.routing.allocation.require._name": "no node"}})
	for range 2 {
		if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 5 || !strings.Contains(r.Stderr, "the next run of the same command makes another snapshot") {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	call(t, source, "DELETE", "/fails-red", nil)
	sum := round(t, dir, args)
	if !sum.Round.Arrived || sum.Changes.Inserted != 1 || !strings.HasSuffix(sum.Round.Snapshot, "-3") {
		t.Errorf("snapshot %s, %+v, %+v", sum.Round.Snapshot, sum.Round, sum.Changes)
	}
	same(t, source, n, "fails-a")
	for range 2 { // so that no round needs it
		write("3")
		round(t, dir, args)
	}
	var all struct{ Snapshots []struct{ Snapshot string } }
	must(t, source.JSON(t.Context(), http.MethodGet, "/_snapshot/rfsd-fails/_all", nil, &all))
	if len(all.Snapshots) != 2 {
		t.Errorf("the source has %v in %s", all.Snapshots, filepath.Join(source.Repos, "fails"))
	}
}
