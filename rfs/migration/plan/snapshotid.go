package plan

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// identityOf returns an id that distinguishes a snapshot from others of the same name. Snapshots before Elasticsearch 5 have no UUID (the
// catalog repeats the name), so their start time is used instead.
func identityOf(snap *snapshot.Snapshot) string {
	if snap.UUID != "" && snap.UUID != snap.Name {
		return snap.UUID
	}
	if snap.StartMillis == 0 {
		return ""
	}
	return fmt.Sprintf("started at %d", snap.StartMillis)
}

// Selected returns the sorted names of the snapshot's indices that are migrated.
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

// SnapshotIdentity reads the id that distinguishes the snapshot from others of the same name.
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

// SnapshotGone adds to an error for a snapshot that the repository lacks what to do if a session was started with it. It returns other
// errors unchanged.
func SnapshotGone(err error) error {
	var missing *snapshot.NotFound
	if !errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("%w: the session was started with it: check that the repository is the same; if the snapshot was deleted, the session cannot continue: remove its indices from the target (rfsctl undo), and start a new one (--session-name)", err)
}
