package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/testing/cluster"
)

// BenchmarkDiscard runs whole dry runs of the snapshots that `make bench` keeps. `make profile` makes of it the profile that
// the program is compiled with.
func BenchmarkDiscard(b *testing.B) {
	cache, err := cluster.CacheDir()
	if err != nil {
		b.Fatal(err)
	}
	repositories, err := filepath.Glob(filepath.Join(cache, "bench", "*", "repo"))
	if err != nil {
		b.Fatal(err)
	}
	if len(repositories) == 0 {
		b.Skip("no snapshots; `bin/bench -part sources` makes them")
	}
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer nowhere.Close()
	defer func(stdout *os.File) { os.Stdout = stdout }(os.Stdout)
	os.Stdout = nowhere
	for _, repository := range repositories {
		b.Run(filepath.Base(filepath.Dir(repository)), func(b *testing.B) {
			for b.Loop() {
				if code := run(b.Context(), []string{"rfsd", "migrate", "--discard", "--log-level", "error", "--repo-uri", repository, "--snapshot-name", "snap1"}, os.Stdout, os.Stderr); code != exit.OK {
					b.Fatalf("exit code %d", code)
				}
			}
		})
	}
}
