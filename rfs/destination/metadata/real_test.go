package metadata_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestARealTargetTakesTheIndicesOfEverySnapshot creates each index of each snapshot at hand on a real node, by its converted metadata.
// Of indices that differ in nothing but name, UUID and age, it creates one.
func TestARealTargetTakesTheIndicesOfEverySnapshot(t *testing.T) {
	root := filepath.Join("..", "..", "..", "testing", "fixtures")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	targets(t, func(t *testing.T, c *target.Client, v target.Version) {
		done := map[string]bool{}
		for _, e := range entries {
			if e.IsDir() {
				t.Run(e.Name(), func(t *testing.T) { create(t, c, v, filepath.Join(root, e.Name()), done) })
			}
		}
	})
}

// create creates the indices of a repository of which done has no equal.
func create(t *testing.T, c *target.Client, v target.Version, dir string, done map[string]bool) {
	ctx := t.Context()
	blobs, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(ctx, blobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range catalog.Snapshots {
		s, err := catalog.Snapshot(ctx, ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range s.Indices {
			x, err := s.Index(ctx, ref.Name)
			if err != nil {
				t.Logf("not readable: %v", err)
				continue
			}
			of := maps.Clone(x.Settings)
			maps.DeleteFunc(of, func(name, _ string) bool {
				return name == "index.uuid" || name == "index.creation_date" || name == "index.provided_name"
			})
			kind := fmt.Sprintf("%v %s %s", of, x.Mappings, x.Aliases)
			if done[kind] {
				continue
			}
			done[kind] = true
			in := metadata.Index{Name: x.Name, Settings: x.Settings, Aliases: x.Aliases}
			for _, m := range x.Mappings {
				in.Mappings = append(in.Mappings, metadata.Mapping{Type: m.Type, Body: m.Body})
			}
			const name = "metadata-test"
			r, err := objects.Ensure(ctx, c, v, []metadata.Wanted{{Name: name, Index: in}})
			if err != nil {
				t.Errorf("%s: %v", x.Name, err)
				continue
			}
			for _, change := range r.Changes {
				t.Logf("%s: %s %s: %s", x.Name, change.Rule, change.Path, change.Detail)
			}
			if status, _, err := c.Do(ctx, "DELETE", "/"+name, nil, nil); err != nil || status != 200 {
				t.Fatalf("%d, %v", status, err)
			}
		}
	}
}
