package phase

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Keys of a session's identity.
const (
	DestinationKey   = "destination"    // one of the Kind constants
	DestinationIDKey = "destination-id" // UUID of the cluster or id of the export directory
	CompressionKey   = "export-compression"
	PipelinesKey     = "run-pipelines"
	snapshotKey      = "snapshot-uuid"
)

// Kinds of destinations.
const (
	KindCluster = "cluster"
	KindFiles   = "export directory"
	KindDryRun  = "dry run (--discard)"
)

// ClusterIdentity returns the identity of a session that sends its documents to the cluster with this UUID; pipelines states whether the
// ingest pipelines of the target run. An empty UUID is unknown.
func ClusterIdentity(uuid string, pipelines bool) map[string]string {
	return map[string]string{DestinationKey: KindCluster, DestinationIDKey: uuid, PipelinesKey: strconv.FormatBool(pipelines)}
}

// Migrates reports whether the session of c migrates the snapshot of a plan, in round 0 or in a later round that has arrived. later reports
// whether a round after it has started.
func Migrates(ctx context.Context, c *cms.Coordinator, plan *plan.Plan) (is, later bool, err error) {
	recorded, err := session.IdentityOf(c).Read(ctx)
	if errors.Is(err, cms.ErrNotFound) || err == nil && plan.Identity == "" {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	all, err := session.RoundsOf(c).Read(ctx)
	if err != nil {
		return false, false, err
	}
	is = recorded[snapshotKey] == plan.Identity
	for _, r := range all.Rounds {
		if r.Number > 0 {
			of := r.Arrived != 0 && r.Identity == plan.Identity
			is, later = is || of, is && !of
		}
	}
	return is, later, nil
}

// bindSnapshot records the snapshot's UUID in the session, or returns an error if the session was started with another snapshot.
func (s *Session) bindSnapshot(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return session.IdentityOf(s.Coordinator).Bind(ctx, map[string]string{snapshotKey: id})
}

// checkSnapshot verifies, once per process, that the repository holds the snapshot that the session was started with. Completed work of
// other processes is only valid for that snapshot.
func (s *Session) checkSnapshot(ctx context.Context) error {
	s.mu.Lock()
	known := s.planned != nil
	s.mu.Unlock()
	if known || s.SnapshotUUID == nil {
		return nil
	}
	name, _, err := s.snapshotName(ctx)
	if err != nil {
		return err
	}
	id, err := s.SnapshotUUID(ctx, name)
	if err != nil {
		return err
	}
	return s.bindSnapshot(ctx, id)
}

// complete adds missing values to the recorded identity, such as the UUID of a cluster that did not report it before.
func (s *Session) complete(ctx context.Context, recorded map[string]string) error {
	missing := maps.Clone(s.Identity)
	maps.DeleteFunc(missing, func(key, value string) bool { return value == "" || recorded[key] != "" })
	if len(missing) == 0 {
		return nil
	}
	return session.IdentityOf(s.Coordinator).Bind(ctx, missing)
}
