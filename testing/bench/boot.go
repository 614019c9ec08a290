package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
)

// heap is what both servers get: the size of a small node in production, on a small machine.
const heap = "1g"

// makeSource fills a real Elasticsearch and keeps its snapshot at home.
func makeSource(ctx context.Context, home string, kind corpus.Kind, codec string, documents int) (s *source, err error) {
	node, err := cluster.Boot(ctx, "elasticsearch", "7.10.2", cluster.Heap(heap))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c, err := node.Client()
	if err != nil {
		return nil, err
	}
	location := filepath.Join(node.Repos, "bench")
	if s, err = fill(ctx, c, location, kind, codec, documents); err != nil {
		return nil, err
	}
	return s, s.keep(home, location)
}

// bootTarget starts a real OpenSearch with default settings and gives its URL.
func bootTarget(ctx context.Context, version string) (string, func() error, error) {
	node, err := cluster.Boot(ctx, "opensearch", version, cluster.Heap(heap), cluster.Collector("G1"))
	if err != nil {
		return "", nil, err
	}
	return node.URL, node.Stop, nil
}
