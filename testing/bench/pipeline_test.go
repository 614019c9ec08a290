//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/export"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
	"github.com/rfsd/rfsd/testing/cluster"
)

// BenchmarkPipeline reads every snapshot that earlier runs of the benchmark left in the cache: repository, stored
// fields, documents, bulk bodies, which are dropped. Coordination and the start of a process are not part of it.
func BenchmarkPipeline(b *testing.B) {
	cache, err := cluster.CacheDir()
	if err != nil {
		b.Fatal(err)
	}
	homes, err := filepath.Glob(filepath.Join(cache, "bench", "*", "source.json"))
	if err != nil {
		b.Fatal(err)
	}
	if len(homes) == 0 {
		b.Skip("no snapshot is in the cache: make bench makes one")
	}
	for _, path := range homes {
		home := filepath.Dir(path)
		b.Run(filepath.Base(home), func(b *testing.B) {
			raw, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			s := &source{Repo: filepath.Join(home, "repo")}
			if err := json.Unmarshal(raw, s); err != nil {
				b.Fatal(err)
			}
			pool, helpers := &bulk.Pool{}, lucene.NewHelpers(runtime.GOMAXPROCS(0)-1)
			b.SetBytes(s.Bytes)
			b.ReportAllocs()
			began, rounds := processorTime(b), 0
			for b.Loop() {
				n, err := pipeline(b.Context(), s.Repo, pool, helpers)
				if err != nil || n != s.Bytes {
					b.Fatalf("%d bytes of %d: %v", n, s.Bytes, err)
				}
				rounds++
			}
			b.ReportMetric(float64(rounds)*float64(s.Bytes)/mega/(processorTime(b)-began).Seconds(), "MB/cpu-s")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pipeline reads all shards of the benchmark's index one after the other and returns the bytes of the sources.
func pipeline(ctx context.Context, root string, pool *bulk.Pool, helpers *lucene.Helpers) (int64, error) {
	blobs, err := repo.NewDir(root)
	if err != nil {
		return 0, err
	}
	catalog, err := snapshot.OpenCatalog(ctx, blobs)
	if err != nil {
		return 0, err
	}
	snap, err := catalog.Snapshot(ctx, snapshotName)
	if err != nil {
		return 0, err
	}
	index, err := snap.Index(ctx, indexName)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for n := range index.NumShards {
		shard, err := snapshot.OpenShard(ctx, blobs, index.Locator, n)
		if err != nil {
			return 0, err
		}
		commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
		if err != nil {
			return 0, err
		}
		loader := bulk.New(bulk.Options{Sender: &export.Discard{}, Index: indexName, MaxBytes: 5 << 20, MaxInFlight: 2, Pool: pool})
		if err := load(ctx, commit.Reader(lucene.ReadOptions{Helpers: helpers}), doc.NewDecoder(indexName, n), loader); err != nil {
			return 0, err
		}
		total += loader.Counts().Bytes
	}
	return total, nil
}

func load(ctx context.Context, r *lucene.Reader, decoder *doc.Decoder, loader *bulk.Loader) error {
	defer r.Close()
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return loader.Flush(ctx)
		}
		if err != nil {
			return err
		}
		d, failure := decoder.Decode(rec)
		if failure != nil {
			return errors.New(failure.Detail)
		}
		if err := loader.Add(ctx, &d); err != nil {
			return err
		}
	}
}
