package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

const (
	manyDocuments = 200_000
	manyIndices   = 2
	// manyLayout changes with what is written, so that an old snapshot is made again.
	manyLayout = "many-200000-v1"
)

// manySource returns the repository of 200,000 documents in two indices of four shards, which a real
// Elasticsearch 7.10.2 has made, and the documents themselves. The repository is kept in the cache.
func manySource(t *testing.T) (repo string, want truth.Docs) {
	t.Helper()
	docs, err := corpus.New(corpus.Logs)
	must(t, err)
	want = make(truth.Docs, manyDocuments)
	for i := range manyDocuments {
		want[truth.Key{Index: manyIndex(i), ID: fmt.Sprint("doc-", i)}] = docs.Append(nil, i, 0)
	}
	cache, err := cluster.CacheDir()
	must(t, err)
	repo = filepath.Join(cache, manyLayout)
	if exists(repo) {
		return repo, want
	}
	n := cluster.Elasticsearch(t, "7.10.2", cluster.Heap("1g"))
	for i := range manyIndices {
		must(t, n.JSON(t.Context(), "PUT", "/"+manyIndex(i), map[string]any{
			"settings": map[string]any{"number_of_shards": 4, "number_of_replicas": 0, "refresh_interval": "-1", "translog.durability": "async"},
			"mappings": map[string]any{"dynamic": false},
		}, nil))
	}
	var body bytes.Buffer
	for i := range manyDocuments {
		k := truth.Key{Index: manyIndex(i), ID: fmt.Sprint("doc-", i)}
		fmt.Fprintf(&body, "{\"index\":{\"_index\":%q,\"_id\":%q}}\n%s\n", k.Index, k.ID, want[k])
		if body.Len() > 4<<20 || i == manyDocuments-1 {
			answer, err := n.Send(t.Context(), "POST", "/_bulk?filter_path=errors", "application/x-ndjson", body.Bytes())
			must(t, err)
			if !bytes.Contains(answer, []byte(`"errors":false`)) {
				t.Fatalf("bulk: %s", answer)
			}
			body.Reset()
		}
	}
	keepSnapshot(t, n, manyLayout, "many-*")
	return repo, want
}

func manyIndex(i int) string { return fmt.Sprint("many-", i%manyIndices) }

// keepSnapshot makes the snapshot snap1 of a node, and keeps its repository in the cache under a name.
func keepSnapshot(t *testing.T, n *cluster.Node, name, indices string) {
	t.Helper()
	cache, err := cluster.CacheDir()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	made, err := n.Snapshot(ctx, name, "snap1", indices)
	must(t, err)
	half, err := os.MkdirTemp(cache, "."+name+"-")
	must(t, err)
	must(t, os.CopyFS(filepath.Join(half, "repo"), os.DirFS(made)))
	must(t, os.Rename(filepath.Join(half, "repo"), filepath.Join(cache, name)))
	must(t, os.Remove(half))
}
