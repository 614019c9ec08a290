package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// unpack restores the Lucene files of the benchmark's shards below dir and returns the directories of the shards.
func unpack(ctx context.Context, root, dir string) ([]string, error) {
	blobs, err := repo.NewDir(root)
	if err != nil {
		return nil, err
	}
	index, err := indexOf(ctx, blobs, indexName)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for n := range index.NumShards {
		shard, err := snapshot.OpenShard(ctx, blobs, index.Locator, n)
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, strconv.Itoa(n))
		if err := os.Mkdir(to, 0o755); err != nil {
			return nil, err
		}
		files := shard.Directory()
		for _, name := range files.List() {
			if err := copyFile(ctx, files, name, filepath.Join(to, name)); err != nil {
				return nil, fmt.Errorf("shard %d, %s: %w", n, name, err)
			}
		}
		dirs = append(dirs, to)
	}
	return dirs, nil
}

// indexOf returns an index of the snapshot of a source.
func indexOf(ctx context.Context, blobs snapshot.Repository, name string) (*snapshot.Index, error) {
	catalog, err := snapshot.OpenCatalog(ctx, blobs)
	if err != nil {
		return nil, err
	}
	snap, err := catalog.Snapshot(ctx, snapshotName)
	if err != nil {
		return nil, err
	}
	return snap.Index(ctx, name)
}

func copyFile(ctx context.Context, from lucene.Directory, name, to string) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	in, err := f.Stream(ctx, 0, f.Size())
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
