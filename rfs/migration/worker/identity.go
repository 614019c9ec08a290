package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
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

// ErrFormer means that a session of a former release does not belong to this destination, as far as can be seen.
var ErrFormer = fmt.Errorf("a former release of rfsd began this session and did not record its destination, and what it did is not here; "+
	"continue it with the destination it was begun with, or begin another one with a new --session-name (and another --coordinator-file, where one is used): %w", fault.ErrConfig)

// IsOf reports whether a session with this recorded identity migrates the snapshot of a plan.
func IsOf(recorded map[string]string, plan *plan.Plan) bool {
	return plan.Identity != "" && recorded[snapshotKey] == plan.Identity
}

// bindSnapshot refuses a snapshot that is not the one the session was begun with, and records it at the first time.
func (s *Session) bindSnapshot(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return session.Of(s.Coordinator).Bind(ctx, map[string]string{snapshotKey: id})
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

// complete adds to the recorded identity what it lacks. A session that a former release began gets all of it, once
// what it did was found at the destination.
func (s *Session) complete(ctx context.Context, recorded map[string]string) error {
	missing := maps.Clone(s.Identity)
	maps.DeleteFunc(missing, func(key, value string) bool { return value == "" || recorded[key] != "" })
	if len(missing) == 0 {
		return nil
	}
	former := recorded[DestinationKey] == "" && missing[DestinationKey] != ""
	if former {
		id, err := s.checkFormer(ctx)
		if err != nil {
			return err
		}
		if id != "" && recorded[snapshotKey] == "" {
			missing[snapshotKey] = id
		}
	}
	if err := session.Of(s.Coordinator).Bind(ctx, missing); err != nil {
		return err
	}
	if !former {
		return nil
	}
	detail, first, err := session.Of(s.Coordinator).IdentityRecorded(ctx, missing)
	if first {
		s.Log.WarnContext(ctx, "identity of the session recorded", "detail", detail)
	}
	return err
}

// Exported is an export directory. *export.Dir is one.
type Exported interface {
	// Holds reports whether the directory has a finished file of an item, below the name of a target index.
	Holds(index string, shard int, cursor int64) (bool, error)
}

// exported reports whether the export directory has files of an item, below any of the target names.
func (s *Session) exported(id cms.ItemID, targets []string) (bool, error) {
	for _, name := range targets {
		if there, err := s.Exported.Holds(name, id.Shard, id.Cursor); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// checkFormer looks at the destination for what a session without identity has done. It returns the UUID of the snapshot
// that the session reads, "" when it is not known.
func (s *Session) checkFormer(ctx context.Context) (snapshot string, err error) {
	entries := map[string]plan.Entry{}
	all, err := s.entries(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range all {
		entry, err := s.settledEntry(e)
		if err != nil {
			return "", err
		}
		entries[e.Name] = entry
		if loc := entry.Locator; loc.SnapshotUUID != loc.SnapshotName {
			snapshot = loc.SnapshotUUID
		}
	}
	seen := map[string]bool{} // indices whose targets were compared
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return "", fmt.Errorf("list items: %w", err)
		}
		id, rerr := item.Range()
		entry, ok := entries[id.Index]
		if rerr != nil || !ok || item.Counts.Indexed == 0 || item.FailedItem() {
			continue
		}
		switch {
		case s.Exported != nil && !item.Open():
			there, err := s.exported(id, entry.Naming.Targets())
			if err != nil {
				return "", err
			}
			if !there {
				return "", fmt.Errorf("index %s shard %d: no file from document %d on: %w", id.Index, id.Shard, id.Cursor, ErrFormer)
			}
		case s.Exported == nil && !seen[id.Index]:
			seen[id.Index] = true
			if err := s.compareFormer(ctx, entry); err != nil {
				return "", err
			}
		}
	}
	return snapshot, nil
}

// compareFormer compares the recorded UUIDs of the targets of an entry that has documents with those of the destination. A
// cluster's are recorded before the first document is sent; exports and dry runs have none.
func (s *Session) compareFormer(ctx context.Context, entry plan.Entry) error {
	for _, name := range entry.Naming.Targets() {
		was, err := session.Of(s.Coordinator).Target(ctx, name)
		switch {
		case errors.Is(err, cms.ErrNotFound) && s.Targets == nil:
			continue
		case errors.Is(err, cms.ErrNotFound):
			return fmt.Errorf("index %s: its documents did not go to a cluster: %w", name, ErrFormer)
		case err != nil:
			return err
		case s.Targets == nil:
			return fmt.Errorf("index %s: its documents went to a cluster: %w", name, ErrFormer)
		}
		is, err := s.targetUUID(ctx, entry, name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("target index %s does not exist: %w", name, ErrFormer)
		}
		if err != nil {
			return fmt.Errorf("target index %s: %w", name, err)
		}
		if is != was {
			return fmt.Errorf("target index %s has the UUID %s, not %s: %w", name, is, was, ErrFormer)
		}
	}
	return nil
}
