package lucene_test

import (
	"errors"
	"io"
	"maps"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestVersions reads the versions of real snapshots of every generation. The basic ones hold 50 documents that were written
// twice, and two that were written, deleted and written again (testing/snapgen, recipes changes and merged).
func TestVersions(t *testing.T) {
	basic := map[int64]int{2: 50, 3: 2}
	for name, want := range map[string]map[int64]int{
		"1.7.6-updates-deletes": {2: 180, 3: 33, 4: 3, 5: 3},
		"2.4.6-basic":           basic, "5.6.16-basic": basic, "6.8.23-basic": basic, "7.10.2-basic": basic, "7.17.29-basic": basic, "8.19.21-basic": basic,
		"9.5.3-basic": basic, "os1.3.14-basic": basic, "os2.19.4-basic": basic, "os3.8.0-basic": basic,
		"6.0.1-nested": {}, "9.5.3-timeseries-stored": {}, "os2.19.4-upgraded": {}, "in-place-2-5": {},
	} {
		t.Run(name, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join(fixtureRoot, name))
			if err != nil {
				t.Fatal(err)
			}
			catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
			if err != nil {
				t.Fatal(err)
			}
			s, err := catalog.Snapshot(t.Context(), catalog.Snapshots[len(catalog.Snapshots)-1].Name)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int64]int{}
			for _, ref := range s.Indices {
				x, err := s.Index(t.Context(), ref.Name)
				if err != nil {
					t.Fatal(err)
				}
				for shard := range x.NumShards {
					countVersions(t, blobs, x.Locator, shard, got)
				}
			}
			once := got[1]
			delete(got, 1)
			if once == 0 || !maps.Equal(got, want) {
				t.Errorf("%d documents were written once; more than once %v, want %v", once, got, want)
			}
		})
	}
}

func countVersions(t *testing.T, blobs snapshot.Repository, loc snapshot.Locator, number int, got map[int64]int) {
	t.Helper()
	shard, err := snapshot.OpenShard(t.Context(), blobs, loc, number)
	if errors.Is(err, snapshot.ErrShardMissing) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	r := commit.Reader(lucene.ReadOptions{NestedTerms: loc.NestedTerms(), Versions: true})
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s/%d: %v", loc.IndexName, number, err)
		}
		got[rec.Version]++
	}
}
