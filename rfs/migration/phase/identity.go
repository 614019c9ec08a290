package phase

import (
	"context"
	"maps"
	"strconv"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Keys of a session's identity.
const (
	DestinationKey   = "destination"    // one of the kinds below
	DestinationIDKey = "destination-id" // of the cluster or of the export directory
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

// ClusterIdentity returns the identity of a session whose documents go to the cluster of this UUID, by way of the target's
// own pipelines or not. An empty UUID is unknown.
func ClusterIdentity(uuid string, pipelines bool) map[string]string {
	return map[string]string{DestinationKey: KindCluster, DestinationIDKey: uuid, PipelinesKey: strconv.FormatBool(pipelines)}
}

// IsOf reports whether a session with this recorded identity migrates the snapshot of a plan.
func IsOf(recorded map[string]string, plan *plan.Plan) bool {
	return plan.Identity != "" && recorded[snapshotKey] == plan.Identity
}

// bindSnapshot refuses a snapshot that is not the one the session was begun with, and records it at the first time.
func (s *Session) bindSnapshot(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return session.IdentityOf(s.Coordinator).Bind(ctx, map[string]string{snapshotKey: id})
}

// checkSnapshot compares the snapshot in the repository with the one that the session was begun with, once per process.
// Work that others have done is complete only for that one.
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

// complete adds to the recorded identity what it lacks, such as the UUID of a cluster that did not report it before.
func (s *Session) complete(ctx context.Context, recorded map[string]string) error {
	missing := maps.Clone(s.Identity)
	maps.DeleteFunc(missing, func(key, value string) bool { return value == "" || recorded[key] != "" })
	if len(missing) == 0 {
		return nil
	}
	return session.IdentityOf(s.Coordinator).Bind(ctx, missing)
}
