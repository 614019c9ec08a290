package main

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestLongShard_HasEachSegmentAgain: a shard that is made of shards of real clusters, with updated and deleted documents, has the
// documents of each as often as it is repeated, and every checksum is right.
func TestLongShard_HasEachSegmentAgain(t *testing.T) {
	fixture := func(name string) *source { return &source{Repo: filepath.Join("../fixtures", name)} }
	changes := repeats{fixture("7.10.2-basic"), "changes", 3}
	orders := repeats{fixture("7.10.2-demo"), "orders", 5}
	want := 0
	for _, r := range []repeats{changes, orders} {
		want += r.copies * readAll(t, r.s.Repo, r.index, 0)
	}
	dir := filepath.Join(t.TempDir(), "repo")
	long, err := longShard(t.Context(), dir, changes, orders)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, long.Repo, changes.index, 3*5+5*(3+2)); got != want || want < 300 {
		t.Errorf("%d documents, want %d", got, want)
	}
}

// readAll returns how many live documents the shards of an index have, and verifies their files. segments is how many there are in
// the only shard; 0: any.
func readAll(t *testing.T, root, name string, segments int) (n int) {
	t.Helper()
	blobs, err := repo.NewDir(root)
	if err != nil {
		t.Fatal(err)
	}
	index, err := indexOf(t.Context(), blobs, name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range index.NumShards {
		shard, err := snapshot.OpenShard(t.Context(), blobs, index.Locator, i)
		if err != nil {
			t.Fatal(err)
		}
		commit, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{VerifyAll: true})
		if err != nil {
			t.Fatal(err)
		}
		if segments > 0 && len(commit.Segments) != segments {
			t.Errorf("%d segments, want %d", len(commit.Segments), segments)
		}
		r := commit.Reader(lucene.ReadOptions{})
		for {
			_, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := errors.Join(r.Close(), commit.Close()); err != nil {
			t.Error(err)
		}
	}
	return n
}
