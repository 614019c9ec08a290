package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_StartsOver: when the snapshot of the last round was deleted, no round runs without --start-over; with it, the target is as the
// source again, and the rounds after it bring changes alone.
func TestFollow_StartsOver(t *testing.T) {
	source, n := livingSource(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/over-*", "", nil)
	})
	put := func(index, id, v string) {
		call(t, source, "PUT", "/"+index+"/_doc/"+id+"?refresh=true", map[string]any{"v": v})
	}
	exists := func(path string) bool {
		_, err := n.Send(t.Context(), http.MethodGet, path, "", nil)
		return err == nil
	}
	for _, index := range []string{"over-a", "over-same", "over-away", "over-before"} {
		for _, id := range []string{"1", "2", "3"} {
			put(index, id, "first")
		}
	}
	call(t, source, "POST", "/_aliases", map[string]any{"actions": []any{map[string]any{"add": map[string]any{"index": "over-a", "alias": "former"}}}})
	call(t, n, "PUT", "/over-before", map[string]any{"settings": map[string]any{"number_of_replicas": 0}})
	dir, args := t.TempDir(), followLive(source, "over", n.URL, "over-*")
	round(t, dir, args)
	put("over-a", "1", "second")
	last := round(t, dir, args)

	call(t, source, "DELETE", "/_snapshot/rfsd-over/"+last.Round.Snapshot, nil)
	call(t, source, "DELETE", "/over-a/_doc/2?refresh=true", nil)
	call(t, source, "DELETE", "/over-before/_doc/2?refresh=true", nil)
	call(t, source, "DELETE", "/over-away", nil)
	call(t, source, "POST", "/_aliases", map[string]any{"actions": []any{map[string]any{"remove": map[string]any{"index": "over-a", "alias": "former"}}}})
	put("over-new", "1", "new")
	for range 2 {
		refusedWith(t, RunIn(t, dir, nil, "rfsd", args...), "the former snapshot "+last.Round.Snapshot, "--start-over")
	}
	if !exists("/over-a/_doc/2") || exists("/over-new") {
		t.Error("a refused round has changed the target")
	}
	over := append(args, "--start-over")
	put("over-a", "4", "ours")
	call(t, n, "PUT", "/over-a/_doc/theirs?refresh=true", map[string]any{"v": 1})
	refusedWith(t, RunIn(t, dir, nil, "rfsd", over...), "other clients have written to the target")
	call(t, n, "DELETE", "/over-a", nil)
	if r := RunIn(t, dir, nil, "rfsd", over...); r.Code != 7 || !strings.Contains(r.Stdout, "documents are in the target index over-before, which the session did not create") {
		t.Fatalf("a target index that was there before: exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	call(t, n, "DELETE", "/over-before", nil)
	r := RunIn(t, dir, nil, "rfsd", args...) // the round has started over
	sum := parseSummary(t, r)
	if r.Code != 0 || !sum.Round.Arrived || sum.Round.Since != "" || sum.Totals.Indexed != 9 {
		t.Errorf("exit %d: %+v, %+v, %s", r.Code, sum.Round, sum.Totals, r.Stderr)
	}
	same(t, source, n, "over-a,over-same,over-before,over-new")
	if exists("/_alias/former") || !exists("/over-away/_doc/1") {
		t.Error("the target has an alias that the source has removed, or lacks an index that stays")
	}
	put("over-same", "4", "later")
	call(t, source, "DELETE", "/over-a/_doc/3?refresh=true", nil)
	verifyChanged(t, dir, args[3], n.URL, "over", 0)
	if sum := round(t, dir, over); sum.Changes.Inserted != 1 || sum.Changes.Deleted != 1 || sum.Totals.Indexed != 2 {
		t.Errorf("the round after it: %+v, %+v", sum.Changes, sum.Totals)
	}
	same(t, source, n, "over-a,over-same,over-before,over-new")
}
