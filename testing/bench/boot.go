package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
)

// heap is what both servers get: the size of a small node in production, on a small machine.
const heap = "1g"

// makeSource fills a real cluster and keeps its snapshot at home.
func makeSource(ctx context.Context, home string, k kind) (s *source, err error) {
	product, version, _ := strings.Cut(k.Cluster, "-")
	node, err := cluster.Boot(ctx, product, version, nodeOptions(k)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c, err := node.Client()
	if err != nil {
		return nil, err
	}
	location := filepath.Join(node.Repos, "bench")
	if s, err = fill(ctx, c, location, k); err != nil {
		return nil, err
	}
	return s, s.keep(home, location)
}

// nodeOptions are those of the node that makes a source: documents of 100 MB need more than others.
func nodeOptions(k kind) []cluster.Option {
	if k.Corpus == corpus.Giant {
		return []cluster.Option{cluster.Heap("4g"), cluster.Setting("http.max_content_length", "200mb")}
	}
	return []cluster.Option{cluster.Heap(heap)}
}

// bootTarget starts a real OpenSearch with default settings and gives its URL.
func bootTarget(ctx context.Context, version string) (string, func() error, error) {
	node, err := cluster.Boot(ctx, "opensearch", version, cluster.Heap(heap), cluster.Collector("G1"))
	if err != nil {
		return "", nil, err
	}
	return node.URL, node.Stop, nil
}
