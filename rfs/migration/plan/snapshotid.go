package plan

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// identityOf returns what distinguishes a snapshot from another of the same name. Before Elasticsearch 5 snapshots have no
// UUID; the catalog repeats their name, so the time at which they started is used instead.
func identityOf(snap *snapshot.Snapshot) string {
	if snap.UUID != "" && snap.UUID != snap.Name {
		return snap.UUID
	}
	if snap.StartMillis == 0 {
		return ""
	}
	return fmt.Sprintf("started at %d", snap.StartMillis)
}

// Selected returns the names of the indices of a snapshot that are migrated, sorted.
func Selected(ctx context.Context, repo snapshot.Repository, req Request) (names []string, err error) {
	catalog, err := snapshot.OpenCatalog(ctx, repo)
	if err != nil {
		return nil, err
	}
	snap, err := catalog.Snapshot(ctx, req.SnapshotName)
	if err != nil {
		return nil, err
	}
	for _, x := range snap.Indices {
		if req.Selects(x.Name) {
			names = append(names, x.Name)
		}
	}
	return names, nil
}

// SnapshotIdentity reads what distinguishes the snapshot from another of the same name.
func SnapshotIdentity(ctx context.Context, repo snapshot.Repository, name string) (string, error) {
	catalog, err := snapshot.OpenCatalog(ctx, repo)
	if err != nil {
		return "", err
	}
	snap, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return "", err
	}
	return identityOf(snap), nil
}
