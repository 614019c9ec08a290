package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// TestFollow_ClosedIndices: an index that is closed at one of two snapshots of a cluster is in both. Changes before it was closed, and
// after it was opened again, arrive.
func TestFollow_ClosedIndices(t *testing.T) {
	for _, version := range draw.Of(t, 1, []string{"7.10.2", "8.19.21"}) {
		t.Run(version, func(t *testing.T) {
			source, n := cluster.Elasticsearch(t, version), cluster.OpenSearch(t, targets[0])
			wipe(t, n)
			t.Cleanup(func() {
				late, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
				defer cancel()
				for _, index := range []string{"closing", "opening"} {
					_, _ = source.Send(late, http.MethodDelete, "/shut-"+index, "", nil)
				}
			})
			dir, args := t.TempDir(), followLive(source, "shut", n.URL, "shut-*")
			put := func(index, id string, n int) {
				call(t, source, "PUT", "/shut-"+index+"/_doc/"+id+"?refresh=true", map[string]any{"n": n})
			}
			switched := func(index, to string) { call(t, source, "POST", "/shut-"+index+"/"+to, nil) }
			sends := func(changed int) {
				t.Helper()
				sum := round(t, dir, args)
				if got := sum.Changes.Inserted + sum.Changes.Updated + sum.Changes.Deleted; !sum.Round.Arrived || got != changed {
					t.Errorf("round %d: %d changes, want %d", sum.Round.Number, got, changed)
				}
			}
			for _, index := range []string{"closing", "opening"} {
				put(index, "1", 1)
				put(index, "2", 1)
				put(index, "3", 1)
			}
			switched("opening", "_close")
			if sum := round(t, dir, args); sum.Totals.Indexed != 6 {
				t.Fatalf("%+v", sum)
			}

			put("closing", "1", 2)
			put("closing", "4", 1)
			call(t, source, "DELETE", "/shut-closing/_doc/2?refresh=true", nil)
			switched("closing", "_close")
			switched("opening", "_open")
			put("opening", "1", 2)
			call(t, source, "DELETE", "/shut-opening/_doc/3?refresh=true", nil)
			sends(5)
			switched("closing", "_open")
			same(t, source, n, "shut-*")

			switched("opening", "_close")
			put("closing", "5", 1)
			sends(1)
			switched("opening", "_open")
			same(t, source, n, "shut-*")
		})
	}
}

// TestFollow_ClosedIndicesAreRefused: a source that cannot put a closed index into a snapshot is asked for none as long as one is closed.
func TestFollow_ClosedIndicesAreRefused(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "6.8.23"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/barred-a", "", nil)
	})
	dir, args := t.TempDir(), followLive(source, "barred", n.URL, "barred-*")
	put := func(id string) { call(t, source, "PUT", "/barred-a/_doc/"+id+"?refresh=true", map[string]any{"n": 1}) }
	put("1")
	round(t, dir, args)
	put("2")
	call(t, source, "POST", "/barred-a/_close", nil)
	refusedWith(t, RunIn(t, dir, nil, "rfsd", append(args, "--delete-indices")...), "indices of the source are closed (1, such as barred-a)")
	call(t, source, "POST", "/barred-a/_open", nil)
	until(t, "the index is open", func() bool {
		return call(t, source, "GET", "/_cluster/health/barred-a", nil)["status"] != "red"
	})
	if sum := round(t, dir, args); sum.Changes.Inserted != 1 {
		t.Errorf("%+v", sum)
	}
	same(t, source, n, "barred-*")
}

// TestCutover_ClosedIndex: what was written to an index before it was closed arrives with the cut-over.
func TestCutover_ClosedIndex(t *testing.T) {
	draw.Test(t)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	f := follows(t, "7.10.2", "cut-open", n.URL, n, "--block-source-writes", "--index-allowlist", "cut-closed")
	call(t, f.source, "PUT", "/cut-closed/_doc/1?refresh=true", map[string]any{"n": 1})
	until(t, "a round has brought the index", func() bool {
		_, err := n.Send(t.Context(), http.MethodGet, "/cut-closed/_doc/1", "", nil)
		return err == nil
	})
	call(t, f.source, "PUT", "/cut-closed/_doc/1", map[string]any{"n": 2})
	call(t, f.source, "PUT", "/cut-closed/_doc/2", map[string]any{"n": 1})
	call(t, f.source, "POST", "/cut-closed/_close", nil)
	if r, _ := f.cutover(t, "--block-source-writes"); r.Code != 0 {
		f.kill()
		t.Fatalf("exit %d: %s %s\n%s", r.Code, r.Stdout, r.Stderr, f.log)
	}
	call(t, f.source, "POST", "/cut-closed/_open", nil)
	f.equal(t, "cut-closed")
}
