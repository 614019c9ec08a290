package snapshot

import (
	"errors"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestMountIsFollowedToTheSnapshotThatHoldsItsDocuments: the settings of a mount name a
// snapshot and an index; where both are in this repository the shards are theirs.
func TestMountIsFollowedToTheSnapshotThatHoldsItsDocuments(t *testing.T) {
	followed := 0
	for name, m := range realRepositories(t) {
		catalog, err := OpenCatalog(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if catalog.Generation < 0 {
			continue // mounts came long after
		}
		ref := catalog.Snapshots[len(catalog.Snapshots)-1]
		s, err := catalog.Snapshot(t.Context(), ref.Name)
		if err != nil || len(s.Indices) == 0 {
			continue
		}
		real, err := s.Index(t.Context(), s.Indices[0].Name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, keys := range [][2]string{
			{"index.store.snapshot.snapshot_uuid", "index.store.snapshot.index_uuid"},
			{"index.searchable_snapshot.snapshot_id.uuid", "index.searchable_snapshot.index.id"},
		} {
			mount := &Index{Name: "mounted", NumShards: real.NumShards, Settings: map[string]string{keys[0]: s.UUID, keys[1]: real.ID}}
			if err := s.follow(mount, "blob"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want, err := OpenShard(t.Context(), m, real.Locator, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := OpenShard(t.Context(), m, mount.Locator, 0)
			if err != nil || got.Manifest != want.Manifest || got.TotalBytes != want.TotalBytes || !slices.Equal(mount.Locator.Generations, real.Locator.Generations) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			gone := &Index{Name: "mounted", Settings: map[string]string{keys[0]: s.UUID, keys[1]: "another"}}
			if err := s.follow(gone, "blob"); !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("%s: a mount of an index that the snapshot lacks: %v", name, err)
			}
			elsewhere := &Index{Name: "mounted", Settings: map[string]string{keys[0]: "other", keys[1]: real.ID}}
			if err := s.follow(elsewhere, "blob"); !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("%s: a mount of another repository: %v", name, err)
			}
			followed++
		}
	}
	if followed == 0 {
		t.Fatal("no repository to mount from")
	}
}
