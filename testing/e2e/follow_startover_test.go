package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestFollow_StartsOverWithinARound: the former snapshot is deleted while a round is sent, and the round is killed. Another one replaces it, but
// not before the operator has removed the index to which it had sent documents: nothing shows whether others wrote there meanwhile.
func TestFollow_StartsOverWithinARound(t *testing.T) {
	source, n := livingSource(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 0)
	const documents = 3000
	update := func(v string) {
		var body strings.Builder
		for i := range documents {
			fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n{\"v\":\"%s\",\"text\":\"%s\"}\n", i, v, strings.Repeat(v+" ", 100))
		}
		if _, err := source.Send(t.Context(), http.MethodPost, "/within/_bulk?refresh=true", "application/x-ndjson", []byte(body.String())); err != nil {
			t.Fatal(err)
		}
	}
	update("first")
	dir := t.TempDir()
	f := &followed{dir: dir, args: followLive(source, "within", p.URL, "within", "--documents-per-bulk-request", "100")}
	env := []string{"XDG_STATE_HOME=" + filepath.Join(dir, "state")}
	run := func(more ...string) Result { return RunIn(t, dir, env, "rfsd", append(f.args, more...)...) }
	zero := run()
	if zero.Code != 0 {
		t.Fatalf("exit %d: %s", zero.Code, zero.Stderr)
	}
	update("second")
	p.delay.Store(int64(200 * time.Millisecond))
	before := p.bulks.Load()
	f.start(t)
	until(t, "documents of the round are sent", func() bool { return p.bulks.Load() > before+5 })
	f.kill()
	p.delay.Store(0)
	call(t, source, "DELETE", "/_snapshot/rfsd-within/"+parseSummary(t, zero).Round.Snapshot, nil)
	call(t, source, "DELETE", "/within/_doc/7?refresh=true", nil)

	refusedWith(t, run(), "the round in progress cannot continue", "--start-over")
	if r := run("--start-over"); r.Code != 7 || !strings.Contains(r.Stdout, "DELETE /within") {
		t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	call(t, n, "DELETE", "/within", nil)
	r := run()
	if sum := parseSummary(t, r); r.Code != 0 || sum.Round.Number != 2 || !sum.Round.Arrived || sum.Totals.Indexed != documents-1 {
		t.Errorf("exit %d: %+v, %+v, %s", r.Code, sum.Round, sum.Totals, r.Stderr)
	}
	same(t, source, n, "within")
	if made := call(t, source, "GET", "/_snapshot/rfsd-within/_all", nil)["snapshots"].([]any); len(made) != 1 {
		t.Errorf("snapshots on the source: %v", made)
	}
	if r := RunIn(t, dir, env, "rfsctl", "status", "--target-host", n.URL, "--session-name", "within"); !strings.Contains(r.Stdout, "replaced: the next round started over") {
		t.Errorf("status: %s", r.Stdout)
	}
	call(t, source, "DELETE", "/within/_doc/8?refresh=true", nil)
	r = run()
	if sum := parseSummary(t, r); r.Code != 0 || sum.Round.Number != 3 || sum.Changes.Deleted != 1 || sum.Totals.Indexed != 1 {
		t.Errorf("the round after it: exit %d: %+v, %s", r.Code, sum.Changes, r.Stderr)
	}
	same(t, source, n, "within")
}
