package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/testing/rest"
)

// targetFigures compares migrations with default settings with the minimal client: a short one, in which the phases before and after the
// documents take a large part of the time, and a longer one.
func targetFigures(ctx context.Context, o options) ([]figure, error) {
	return press(ctx, o, mixed, func(l *pressed) (all []figure, err error) {
		long, err := cached(o.cache, single)
		if err != nil && !absent(single, err) {
			return nil, err
		}
		for _, s := range []*source{l.s, long} {
			if s == nil {
				continue
			}
			rounds := o.rounds
			if s == long {
				rounds = min(rounds, 3)
			}
			r, t, err := intoTarget(ctx, o.rfsd, s, "OpenSearch "+o.target, l.node.URL, rounds)
			if err != nil {
				return all, err
			}
			all = append(all, figure{Name: fmt.Sprintf("%.0f MB into %s, default settings, whole run", float64(s.Bytes)/mega, o.target),
				Measured: fmt.Sprintf("%.2f s, %d documents indexed twice, %d rejections", r.Seconds, t.IndexedTwice, t.Rejected),
				Beside:   fmt.Sprintf("minimal client: %.2f s", t.ClientSeconds), Value: t.ClientSeconds / r.Seconds, Goal: 0.97})
		}
		return all, nil
	})
}

// tinyIndices is the number of indices into which the shards of a source are divided to measure tiny ones.
const tinyIndices = 100

// tinyFigures measures the complete migration of very many small shards, with its state in the target.
func tinyFigures(ctx context.Context, o options) ([]figure, error) {
	return press(ctx, o, tiniest, func(l *pressed) ([]figure, error) {
		dir, err := os.MkdirTemp("", "rfsd-bench-tiny-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		s := *l.s
		s.Repo, s.Documents, s.Bytes = filepath.Join(dir, "repo"), s.Documents*tinyIndices, s.Bytes*tinyIndices
		if err := multiply(l.s, s.Repo, tinyIndices, true); err != nil {
			return nil, err
		}
		r, err := migrationWith(ctx, o.rfsd, &s, "tiny shards", dir, []string{"--repo-uri", "file://" + s.Repo, "--target-host", l.node.URL, "--shards", "*=1"})
		if err != nil {
			return nil, err
		}
		shards := tinyIndices * tiniest.Shards
		return []figure{{Name: fmt.Sprintf("%d tiny shards of %d indices into %s, one target shard each", shards, tinyIndices, o.target), Measured: fmt.Sprintf("%.0f s with the creation of the indices", r.Seconds),
			Value: float64(shards) / r.Seconds, Goal: 20, Unit: "shards a second"}}, nil
	})
}

// intoTarget measures rfsd and the minimal client with the cluster at url, alternately on empty indices with the same settings, after one
// round of both to warm up the node.
func intoTarget(ctx context.Context, rfsd string, s *source, name, url string, rounds int) (run, *targetResult, error) {
	dir, err := os.MkdirTemp("", "rfsd-bench-bodies-")
	if err != nil {
		return run{}, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := migration(ctx, rfsd, s, "preparing bodies", "--export-dir", dir); err != nil {
		return run{}, nil, err
	}
	bodies, err := prepareBodies(dir)
	if err != nil {
		return run{}, nil, err
	}
	t := &targetResult{Name: name}
	node := rest.Client{URL: url}
	var definition []byte
	migrated := func() (run, error) {
		if err := node.JSON(ctx, http.MethodDelete, "/"+indexName+"?ignore_unavailable=true", nil, nil); err != nil {
			return run{}, err
		}
		r, err := migration(ctx, rfsd, s, "→ "+name, "--target-host", url, "--existing-documents", "overwrite")
		if err != nil {
			return r, err
		}
		return r, t.check(ctx, node, s)
	}
	sent := func() (run, error) {
		seconds, err := clientRound(ctx, node, definition, bodies)
		return run{usage: usage{Seconds: seconds}}, err
	}
	if _, err := migrated(); err != nil {
		return run{}, nil, err
	}
	if definition, err = indexDefinition(ctx, node); err != nil {
		return run{}, nil, err
	}
	if _, err := sent(); err != nil {
		return run{}, nil, err
	}
	r, err := alternate(rounds, byTime, migrated, sent)
	if err != nil {
		return run{}, nil, err
	}
	t.ClientSeconds = r[1].Seconds
	return r[0], t, node.JSON(ctx, http.MethodDelete, "/"+indexName, nil, nil)
}

// clientRound creates an empty index with the given definition, sends the bodies and makes the documents searchable, as a migration does.
// It returns the duration in seconds.
func clientRound(ctx context.Context, node rest.Client, definition []byte, bodies [][]byte) (float64, error) {
	if err := node.JSON(ctx, http.MethodDelete, "/"+indexName, nil, nil); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := node.JSON(ctx, http.MethodPut, "/"+indexName, string(definition), nil); err != nil {
		return 0, err
	}
	if err := sendAll(ctx, node.URL, bodies); err != nil {
		return 0, err
	}
	err := node.JSON(ctx, http.MethodPost, "/"+indexName+"/_refresh", nil, nil)
	return time.Since(begin).Seconds(), err
}

// check compares the contents of the cluster with the source, and counts excess documents and rejections.
func (t *targetResult) check(ctx context.Context, node rest.Client, s *source) error {
	if err := node.JSON(ctx, http.MethodPost, "/"+indexName+"/_refresh", nil, nil); err != nil {
		return err
	}
	var stats struct {
		All struct {
			Primaries struct {
				Docs     struct{ Count int64 }
				Indexing struct {
					Total int64 `json:"index_total"`
				}
			}
		} `json:"_all"`
	}
	if err := node.JSON(ctx, http.MethodGet, "/"+indexName+"/_stats/docs,indexing", nil, &stats); err != nil {
		return err
	}
	p := stats.All.Primaries
	if p.Docs.Count != int64(s.Documents) {
		return fmt.Errorf("%s holds %d documents, want %d", t.Name, p.Docs.Count, s.Documents)
	}
	t.IndexedTwice = max(t.IndexedTwice, p.Indexing.Total-int64(s.Documents))
	rejected, err := rejections(ctx, node)
	t.Rejected = max(t.Rejected, rejected)
	return err
}

// rejections returns the number of rejections because of overload since the nodes were started.
func rejections(ctx context.Context, node rest.Client) (int64, error) {
	var stats struct {
		Nodes map[string]struct {
			ThreadPool struct {
				Write struct{ Rejected int64 }
			} `json:"thread_pool"`
			Breakers         map[string]struct{ Tripped int64 }
			IndexingPressure struct {
				Memory struct {
					Total struct {
						Coordinating int64 `json:"coordinating_rejections"`
						Primary      int64 `json:"primary_rejections"`
					}
				}
			} `json:"indexing_pressure"`
		}
	}
	if err := node.JSON(ctx, http.MethodGet, "/_nodes/stats/thread_pool,indexing_pressure,breaker", nil, &stats); err != nil {
		return 0, err
	}
	var n int64
	for _, x := range stats.Nodes {
		n += x.ThreadPool.Write.Rejected + x.IndexingPressure.Memory.Total.Coordinating + x.IndexingPressure.Memory.Total.Primary
		for _, b := range x.Breakers {
			n += b.Tripped
		}
	}
	return n, nil
}

// indexDefinition returns the body that creates an index like the one that rfsd created.
func indexDefinition(ctx context.Context, node rest.Client) ([]byte, error) {
	var got map[string]struct {
		Settings struct{ Index map[string]any }
		Mappings json.RawMessage
	}
	if err := node.JSON(ctx, http.MethodGet, "/"+indexName, nil, &got); err != nil {
		return nil, err
	}
	index, ok := got[indexName]
	if !ok {
		return nil, fmt.Errorf("the cluster does not know the index %s", indexName)
	}
	for _, own := range []string{"uuid", "version", "creation_date", "provided_name"} {
		delete(index.Settings.Index, own)
	}
	index.Settings.Index["refresh_interval"] = "-1" // as during the migration
	return json.Marshal(map[string]any{"settings": map[string]any{"index": index.Settings.Index}, "mappings": index.Mappings})
}
