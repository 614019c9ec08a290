package metadata_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestARealTargetTakesTheIndicesOfEverySnapshot creates each index of each snapshot at hand
// on a real node, by its converted metadata.
func TestARealTargetTakesTheIndicesOfEverySnapshot(t *testing.T) {
	root := filepath.Join("..", "..", "..", "testing", "fixtures")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	targets(t, func(t *testing.T, c *target.Client, v target.Version) {
		for _, e := range entries {
			if e.IsDir() {
				t.Run(e.Name(), func(t *testing.T) { create(t, c, v, filepath.Join(root, e.Name())) })
			}
		}
	})
}

func create(t *testing.T, c *target.Client, v target.Version, dir string) {
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
