package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/early"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/repotest"
)

const farAway = 50 * time.Millisecond

// TestAPlanTakesThreeRoundTrips: two for the catalog, then one for the snapshot, its indices and the lists of their shards. Catalogs of
// former releases do not list shards, or not the indices of each snapshot.
func TestAPlanTakesThreeRoundTrips(t *testing.T) {
	for name, want := range map[string]int{"7.10.2-demo": 3, "os2.19.4-templates": 3, "9.5.3-basic": 3, "6.8.23-templates": 4} {
		t.Run(name, func(t *testing.T) {
			dir, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", name))
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
				plan, err := New(t.Context(), repotest.Distant{Reader: dir, Delay: farAway}, req)
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
	e := earlyLists{loc, early.Start(t.Context(), func(context.Context) *shardLists { return &shardLists{} })}
	defer e.Stop()
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

// cancelling is a repository that ends a context when it is asked for the hundredth blob.
type cancelling struct {
	snapshot.Repository
	asked  atomic.Int64
	cancel context.CancelFunc
}

func (r *cancelling) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if r.asked.Add(1) == 100 {
		r.cancel()
	}
	return r.Repository.Open(ctx, name, off, n)
}

// TestPlanning_EndsWhenInterrupted plans many indices whose metadata is missing.
func TestPlanning_EndsWhenInterrupted(t *testing.T) {
	const indices = 20_000
	at := t.TempDir()
	var catalog strings.Builder
	catalog.WriteString(`{"snapshots":[{"name":"s","uuid":"u","state":1,"version":"7.17.29"}],"indices":{`)
	names := make([]string, indices)
	for i := range names {
		names[i] = fmt.Sprintf("i%d", i)
		fmt.Fprintf(&catalog, `"i%d":{"id":"id%d","snapshots":["u"],"shard_generations":["g"]},`, i, i)
	}
	catalog.WriteString(`"last":{"id":"l","snapshots":["u"],"shard_generations":["g"]}}}`)
	if err := os.WriteFile(filepath.Join(at, "index-0"), []byte(catalog.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := repo.NewDir(at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.OpenCatalog(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &cancelling{Repository: dir, cancel: cancel}
	all := planIndices(ctx, r, c.Listed("s"), names, Request{SnapshotName: "s", Sizes: true})
	if !errors.Is(all.err, context.Canceled) {
		t.Errorf("%v", all.err)
	}
	if n := r.asked.Load(); n > 1000 {
		t.Errorf("%d blobs were asked for", n)
	}
}
