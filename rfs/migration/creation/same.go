package creation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ErrSourceIsTarget means that documents would be written to the cluster from which the snapshot was taken.
var ErrSourceIsTarget = fmt.Errorf("the target is the source: later writes there would be overwritten; "+
	"check --target-host, or give the indices other names (--index-rename), or confirm with --allow-source-as-target: %w", fault.ErrConfig)

// unknownUUID is the UUID of clusters and indices that have none.
const unknownUUID = "_na_"

// IndexUUIDs reads the UUIDs of existing indices of a target. *target.Client implements it.
type IndexUUIDs interface {
	IndexUUIDs(ctx context.Context, names []string) (map[string]string, error)
}

// CheckSource returns an ErrSourceIsTarget if the plan would write to an index of the cluster from which its snapshot was taken: the
// cluster has the UUID of the snapshot and a target index has the name of a source index, or a target index has the UUID of a source index.
// If only the cluster UUIDs are equal, it returns a warning. An unknown UUID equals no other. allowed turns the error into a warning.
func CheckSource(ctx context.Context, plan *plan.Plan, clusterUUID string, on IndexUUIDs, allowed bool) (warning string, err error) {
	found, err := sameIndices(ctx, plan, on)
	if err != nil {
		return "", err
	}
	same, err := sameCluster(ctx, plan, clusterUUID)
	if err != nil {
		return "", err
	}
	if same {
		for _, name := range planTargets(plan) {
			if slices.ContainsFunc(plan.Source.Indices, func(x snapshot.IndexRef) bool { return x.Name == name }) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	switch {
	case len(found) > 0 && !allowed:
		return "", fmt.Errorf("%s: %w", fault.Names(found, 10), ErrSourceIsTarget)
	case len(found) > 0:
		return fmt.Sprintf("the target is the source, as --allow-source-as-target permits: documents of %s are overwritten with documents of the snapshot", fault.Names(found, 10)), nil
	case same:
		return "the target is the cluster that the snapshot was taken of; no target index has the name of an index of the snapshot", nil
	}
	return "", nil
}

func planTargets(plan *plan.Plan) []string {
	names := map[string]bool{}
	for _, x := range plan.Indices {
		for _, name := range x.Entry.Naming.Targets() {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sameIndices returns the target indices that have the UUID of an index of the source.
func sameIndices(ctx context.Context, plan *plan.Plan, on IndexUUIDs) ([]string, error) {
	source := map[string]bool{}
	for _, x := range plan.Indices {
		if x.Source == nil {
			continue
		}
		if uuid := x.Source.Settings["index.uuid"]; uuid != "" && uuid != unknownUUID {
			source[uuid] = true
		}
	}
	if len(source) == 0 {
		return nil, nil
	}
	uuids, err := on.IndexUUIDs(ctx, planTargets(plan))
	if errors.Is(err, fault.ErrConfig) {
		return nil, nil // no permission; the cluster's UUID needs none
	}
	var same []string
	for name, uuid := range uuids {
		if source[uuid] {
			same = append(same, name)
		}
	}
	return same, err
}

// sameCluster reports whether the snapshot was taken from the cluster with this UUID. It returns false if the global metadata of the
// snapshot cannot be read or has no UUID.
func sameCluster(ctx context.Context, plan *plan.Plan, clusterUUID string) (bool, error) {
	if plan.Source == nil || clusterUUID == "" || clusterUUID == unknownUUID {
		return false, nil
	}
	sections, err := plan.Source.Global(ctx)
	if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
		return false, err
	}
	if err != nil {
		return false, nil //nolint:nilerr // readers that need the metadata report it
	}
	for _, key := range []string{"cluster_uuid", "uuid"} { // the latter before Elasticsearch 2
		var uuid string
		if json.Unmarshal(sections[key], &uuid) == nil && uuid == clusterUUID {
			return true, nil
		}
	}
	return false, nil
}
