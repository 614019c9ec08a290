package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/testing/cluster"
)

// heap is the Java heap of a target: the size of a small production node on a small machine.
const heap = "1g"

// makeSources loads each kind into a real cluster in sequence, and keeps a snapshot of each in the cache.
func makeSources(ctx context.Context, cache, from string, kinds []kind) (err error) {
	product, version, _ := strings.Cut(from, "-")
	// Documents of 100 MB need a larger heap.
	node, err := cluster.Boot(ctx, product, version, cluster.Heap("3g"), cluster.Setting("http.max_content_length", "200mb"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c, err := node.Client()
	if err != nil {
		return err
	}
	for _, k := range kinds {
		progress("making the snapshot: %d documents of kind %s, codec %s, %d shards, in %s", k.Documents, k.Corpus, k.Codec, k.Shards, from)
		location := filepath.Join(node.Repos, k.folder())
		s, err := fill(ctx, c, location, k)
		if err == nil {
			err = s.keep(filepath.Join(cache, "bench", k.folder()), location)
		}
		if err == nil {
			err = c.JSON(ctx, http.MethodDelete, "/"+indexName, nil, nil)
		}
		if err != nil {
			return fmt.Errorf("source %s: %w", k.folder(), err)
		}
	}
	return nil
}

// bootTarget starts a real OpenSearch with default settings and returns its URL.
func bootTarget(ctx context.Context, version string) (string, func() error, error) {
	node, err := cluster.Boot(ctx, "opensearch", version, cluster.Heap(heap), cluster.Collector("G1"))
	if err != nil {
		return "", nil, err
	}
	return node.URL, node.Stop, nil
}
