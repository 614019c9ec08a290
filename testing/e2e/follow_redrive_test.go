package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_RedriveAfterIndicesWereDeleted: failed documents of an index that the source has deleted since are not brought back, whether the
// index stays away, comes back, or is made anew with other shards and another mapping.
func TestFollow_RedriveAfterIndicesWereDeleted(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, args := t.TempDir(), followLive(source, "lost", n.URL, "lost-*", "--delete-indices")
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/lost-*", "", nil)
	})
	all := []string{"lost-away", "lost-back", "lost-anew", "lost-stays"}
	put := func(index, id string, v any) {
		call(t, source, "PUT", "/"+index+"/_doc/"+id+"?refresh=true", map[string]any{"v": v})
	}
	for _, index := range all {
		put(index, "first", 0)
	}
	round(t, dir, args)
	call(t, n, "PUT", "/_ingest/pipeline/refuses", map[string]any{"processors": []any{map[string]any{"fail": map[string]any{"message": "no"}}}})
	for _, index := range all {
		call(t, n, "PUT", "/"+index+"/_settings", map[string]any{"index.final_pipeline": "refuses"})
		put(index, "failed", 1)
		put(index, "both", 1)
	}
	if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 6 {
		t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	call(t, n, "PUT", "/lost-stays/_settings", map[string]any{"index.final_pipeline": nil})
	for _, index := range all[:3] {
		call(t, source, "DELETE", "/"+index, nil)
	}
	make := func(index string) {
		call(t, source, "PUT", "/"+index, map[string]any{"settings": map[string]any{"number_of_shards": 3, "number_of_replicas": 0}, "mappings": map[string]any{"properties": map[string]any{"v": map[string]any{"type": "keyword"}}}})
		put(index, "new", "new")
		put(index, "both", "new")
	}
	make("lost-anew")
	round(t, dir, args)
	make("lost-back")
	round(t, dir, args)
	same(t, source, n, "lost-anew,lost-back")
	redrive := []string{"redrive", "--target-host", n.URL, "--session-name", "lost-round-1", "--output", "json"}
	refusedWith(t, RunIn(t, dir, nil, "rfsd", redrive...), "--repo-uri")
	r := RunIn(t, dir, nil, "rfsd", append(redrive, "--repo-uri", args[3])...)
	if r.Code != 0 || strings.Contains(r.Stdout, `"deleted": 0`) {
		t.Errorf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
	}
	same(t, source, n, "lost-*")
	if got := fmt.Sprint(call(t, n, "GET", "/lost-*/_alias", nil)); strings.Contains(got, "lost-away") {
		t.Errorf("the target has %s", got)
	}
}
