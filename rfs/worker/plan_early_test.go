package worker

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/repo/repotest"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

const farAway = 50 * time.Millisecond

// TestAPlanTakesThreeRoundTrips: two for the catalog, then one for the snapshot, its indices and the lists of their shards. Catalogs of
// former releases do not list shards, or not the indices of each snapshot.
func TestAPlanTakesThreeRoundTrips(t *testing.T) {
	for name, want := range map[string]int{"7.10.2-demo": 3, "os2.19.4-templates": 3, "9.5.3-basic": 3, "6.8.23-templates": 4} {
		t.Run(name, func(t *testing.T) {
			dir, err := repo.NewDir(filepath.Join("..", "..", "testing", "fixtures", name))
			if err != nil {
				t.Fatal(err)
			}
			catalog, err := snapshot.OpenCatalog(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				req := Request{SnapshotName: catalog.Snapshots[0].Name, MultiType: SplitTypes, EmitType: EmitAuto, Sizes: true, IncludeSystem: true}
				began := time.Now()
				plan, err := NewPlan(t.Context(), repotest.Distant{Reader: dir, Delay: farAway}, req)
				if err != nil {
					t.Fatal(err)
				}
				if n := int(time.Since(began) / farAway); n != want {
					t.Errorf("%d round trips, want %d", n, want)
				}
				snap, err := catalog.Snapshot(t.Context(), req.SnapshotName)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range plan.Indices {
					index, err := snap.Index(t.Context(), x.Name)
					if err != nil {
						t.Fatal(err)
					}
					sizes, sums := measureShards(t.Context(), dir, index.Locator, index.NumShards, nil)
					index.Locator.ShardSums = sums
					if !reflect.DeepEqual(x.Entry.Bytes, sizes) || !reflect.DeepEqual(x.Entry.Locator, index.Locator) {
						t.Errorf("%s: %v at %+v, want %v at %+v", x.Name, x.Entry.Bytes, x.Entry.Locator, sizes, index.Locator)
					}
				}
			})
		})
	}
}

// TestListsThatWereReadEarlyAreThoseOfTheIndex: its metadata may lead to another snapshot, or state another number of shards.
func TestListsThatWereReadEarlyAreThoseOfTheIndex(t *testing.T) {
	loc := snapshot.Locator{SnapshotName: "s", SnapshotUUID: "u", IndexID: "i", Generations: []string{"a", "b"}}
	index := func(change func(x *snapshot.Index)) *snapshot.Index {
		x := &snapshot.Index{NumShards: 2, Locator: loc}
		x.Locator.MetaSum, x.Locator.Created = "sum", 7_10_02_99
		change(x)
		return x
	}
	e := earlyLists{loc, beginEarly(t.Context(), func(context.Context) *shardLists { return &shardLists{} })}
	defer e.stop()
	if e.of(index(func(*snapshot.Index) {})) == nil {
		t.Error("lists of the same index are read again")
	}
	for name, change := range map[string]func(x *snapshot.Index){
		"another snapshot": func(x *snapshot.Index) { x.Locator.SnapshotUUID = "v" },
		"another folder":   func(x *snapshot.Index) { x.Locator.IndexID = "j" },
		"another path":     func(x *snapshot.Index) { x.Locator.PathType = 1 },
		"a further shard":  func(x *snapshot.Index) { x.NumShards = 3 },
		"no further shard": func(x *snapshot.Index) { x.NumShards = 1 },
	} {
		if e.of(index(change)) != nil {
			t.Errorf("%s: lists of another are used", name)
		}
	}
}
