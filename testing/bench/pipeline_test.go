package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/source/lucene"
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
			began, rounds := processorTime(), 0
			for b.Loop() {
				n, err := pipeline(b.Context(), s.Repo, pool, helpers)
				if err != nil || n != s.Bytes {
					b.Fatalf("%d bytes of %d: %v", n, s.Bytes, err)
				}
				rounds++
			}
			b.ReportMetric(float64(rounds)*float64(s.Bytes)/mega/(processorTime()-began).Seconds(), "MB/cpu-s")
		})
	}
}
