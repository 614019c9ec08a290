package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/rest"
)

const (
	followedDocuments = 1_000_000
	changedPart       = 1000 // one of this many documents changes before a round
)

// followedSnapshots are the snapshots of a followed source, with the step before each.
var followedSnapshots = []string{"first", "changed", "merged"}

// roundFigures compares rounds with the migration of the first snapshot: a thousandth of a million documents was changed, without merges
// and after a forced merge. The source is created anew and is not cached.
func roundFigures(ctx context.Context, o options) (all []figure, err error) {
	dir, err := os.MkdirTemp("", "rfsd-bench-rounds-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	repo := filepath.Join(dir, "repo")
	if err := makeFollowed(ctx, repo); err != nil {
		return nil, err
	}
	target, err := cluster.Boot(ctx, "opensearch", o.target, cluster.Heap(heap), cluster.Collector("G1"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Stop()) }()
	var runs []run
	for i, name := range followedSnapshots {
		progress("round %d", i)
		r, err := followed(ctx, o.rfsd, repo, name, target.URL, dir)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
		runs = append(runs, r)
	}
	first := runs[0]
	for i, r := range runs[1:] {
		name := []string{"a round of 0.1 % of 1,000,000 documents", "the same after a forced merge"}[i]
		all = append(all, figure{
			Name: name + ", ÷ the first migration: time", Measured: fmt.Sprintf("%.2f s, %.2f CPU s, %.1f MB read in %d requests, %d operations", r.Seconds, r.CPUSeconds, float64(r.RepositoryBytes)/mega, r.Requests, r.Documents),
			Beside: fmt.Sprintf("%.1f s, %.2f CPU s, %.1f MB in %d requests", first.Seconds, first.CPUSeconds, float64(first.RepositoryBytes)/mega, first.Requests), Value: r.Seconds / first.Seconds, Goal: []float64{0.03, 0}[i], AtMost: true,
		})
		for _, x := range []struct {
			name  string
			value float64
		}{
			{"CPU", r.CPUSeconds / first.CPUSeconds}, {"bytes read", float64(r.RepositoryBytes) / float64(first.RepositoryBytes)},
			{"requests to the repository", float64(r.Requests) / float64(first.Requests)},
		} {
			all = append(all, figure{Name: name + ": " + x.name, Value: x.value})
		}
	}
	return all, nil
}

// makeFollowed creates the snapshots of a source in the directory repo.
func makeFollowed(ctx context.Context, repo string) (err error) {
	node, err := cluster.Boot(ctx, "elasticsearch", "7.10.2", cluster.Heap(heap))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c, err := node.Client()
	if err != nil {
		return err
	}
	progress("making three snapshots of %d documents", followedDocuments)
	if err := c.JSON(ctx, http.MethodPut, "/"+indexName, fmt.Sprintf(indexBody, ordinaryShards, "default"), nil); err != nil {
		return err
	}
	docs, err := corpus.New(corpus.Logs)
	if err != nil {
		return err
	}
	f := filler{c: c, docs: docs}
	write := func(revision, step int) error {
		for i := revision; i < followedDocuments; i += step {
			if _, err := f.index(ctx, i, revision); err != nil {
				return err
			}
		}
		return f.flush(ctx)
	}
	location := filepath.Join(node.Repos, "rounds")
	if err := c.JSON(ctx, http.MethodPut, "/_snapshot/bench", map[string]any{"type": "fs", "settings": map[string]any{"location": location}}, nil); err != nil {
		return err
	}
	for i, name := range followedSnapshots {
		merge, step := "", changedPart
		switch i {
		case 0:
			merge, step = "/_forcemerge?max_num_segments=5", 1 // so that no merge occurs before the next snapshot
		case 2:
			merge = "/_forcemerge?max_num_segments=1"
		}
		if err := write(i, step); err != nil {
			return err
		}
		if merge != "" {
			if err := c.JSON(ctx, http.MethodPost, "/"+indexName+merge, nil, nil); err != nil {
				return err
			}
		}
		if err := snapshotNamed(ctx, c, name); err != nil {
			return err
		}
	}
	return os.CopyFS(repo, os.DirFS(location))
}

// snapshotNamed creates a snapshot of the index.
func snapshotNamed(ctx context.Context, c rest.Client, name string) error {
	if err := c.JSON(ctx, http.MethodPost, "/"+indexName+"/_flush", nil, nil); err != nil {
		return err
	}
	var done struct {
		Snapshot struct{ State string }
	}
	if err := c.JSON(ctx, http.MethodPut, "/_snapshot/bench/"+name+"?wait_for_completion=true", `{"indices":"`+indexName+`","include_global_state":false}`, &done); err != nil {
		return err
	}
	if done.Snapshot.State != "SUCCESS" {
		return fmt.Errorf("the snapshot %s ended as %s", name, done.Snapshot.State)
	}
	return nil
}

// followed measures the round of a snapshot. It returns an error if the round did not arrive or did not consist of the changed documents.
func followed(ctx context.Context, rfsd, repo, snapshot, target, dir string) (run, error) {
	out, u, err := measured(ctx, rfsd, "follow", "--once", "--repo-uri", "file://"+repo, "--snapshot-name", snapshot, "--target-host", target, "--session-name", "bench",
		"--failed-documents", filepath.Join(dir, "failed"), "--log-level", "warn", "--output", "json")
	if err != nil {
		return run{}, err
	}
	var sum struct {
		summary
		Round struct{ Arrived bool }
	}
	if err := outputtest.Decode(out, &sum); err != nil {
		return run{}, fmt.Errorf("summary: %w: %.300s", err, out)
	}
	want := int64(followedDocuments / changedPart)
	if snapshot == followedSnapshots[0] {
		want = followedDocuments
	}
	if !sum.Round.Arrived || sum.Totals.Indexed != want {
		return run{}, fmt.Errorf("%d operations (arrived: %v), want %d", sum.Totals.Indexed, sum.Round.Arrived, want)
	}
	return run{Name: snapshot, usage: u, Documents: sum.Totals.Indexed, SourceBytes: sum.Totals.Bytes, RepositoryBytes: sum.RepositoryBytes, Requests: sum.Requests}, nil
}
