package worker

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestARunReadsTheListOfAShardOnce: what the plan has read is not read again by the lease.
func TestARunReadsTheListOfAShardOnce(t *testing.T) {
	dir, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	var log []repo.Request
	blobs := repo.NewCounting(dir)
	blobs.Log(&log)
	sum, err := runFrom(t.Context(), t, blobs, &Manifests{}, filepath.Join(t.TempDir(), "state.db"), ToNowhere(), nil)
	if err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	reads := map[string]int{}
	for _, r := range log {
		if name := filepath.Base(r.Name); r.Verb == "open" && strings.HasPrefix(r.Name, "indices/") && strings.HasPrefix(name, "snap-") {
			reads[r.Name]++
		}
	}
	if len(reads) < 2 {
		t.Fatalf("the lists of %d shards were read", len(reads))
	}
	for name, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
}

func TestManifestsAreKeptWithinABound(t *testing.T) {
	var m Manifests
	loc := snapshot.Locator{IndexID: "x", SnapshotUUID: "s", ShardSums: make([]string, 1000)}
	list := func(n, files int) *snapshot.Shard {
		loc.ShardSums[n] = "sum"
		return &snapshot.Shard{Number: n, Sum: "sum", Files: make([]snapshot.File, files)}
	}
	for n := range 1000 {
		m.keep(loc, list(n, 100))
	}
	if most := mostManifests / keptFile; len(m.shards) == 0 || 100*len(m.shards) > most {
		t.Errorf("%d lists of 100 files are kept, at most %d files are to be", len(m.shards), most)
	}
	if s := m.take(loc, 0); s == nil || s.Number != 0 {
		t.Errorf("%+v", s)
	}
	if s := m.take(loc, 0); s != nil {
		t.Error("a list is used twice")
	}
	loc.ShardSums[1] = "another"
	if s := m.take(loc, 1); s != nil {
		t.Error("a list is used that is not the one of the plan")
	}
	if s := m.take(snapshot.Locator{IndexID: "x", SnapshotUUID: "s"}, 2); s != nil {
		t.Error("a list is used though the session knows none")
	}
	for n := range 1000 {
		m.take(loc, n)
	}
	if m.bytes != 0 {
		t.Errorf("%d bytes are left", m.bytes)
	}
	m.keep(loc, &snapshot.Shard{Number: 3})
	if (*Manifests)(nil).take(loc, 3) != nil || m.take(loc, 3) != nil {
		t.Error("a list without a sum is kept")
	}
}
