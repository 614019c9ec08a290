package plan

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

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
	if s := m.Take(loc, 0); s == nil || s.Number != 0 {
		t.Errorf("%+v", s)
	}
	if s := m.Take(loc, 0); s != nil {
		t.Error("a list is used twice")
	}
	loc.ShardSums[1] = "another"
	if s := m.Take(loc, 1); s != nil {
		t.Error("a list is used that is not the one of the plan")
	}
	if s := m.Take(snapshot.Locator{IndexID: "x", SnapshotUUID: "s"}, 2); s != nil {
		t.Error("a list is used though the session knows none")
	}
	for n := range 1000 {
		m.Take(loc, n)
	}
	if m.bytes != 0 {
		t.Errorf("%d bytes are left", m.bytes)
	}
	m.keep(loc, &snapshot.Shard{Number: 3})
	if (*Manifests)(nil).Take(loc, 3) != nil || m.Take(loc, 3) != nil {
		t.Error("a list without a sum is kept")
	}
}
