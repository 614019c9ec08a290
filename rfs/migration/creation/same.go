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

// ErrSourceIsTarget means that documents would be written into the cluster that the snapshot was taken of.
var ErrSourceIsTarget = fmt.Errorf("the target is the source: later writes there would be overwritten; "+
	"check --target-host, or give the indices other names (--index-rename), or confirm with --allow-source-as-target: %w", fault.ErrConfig)

// unknownUUID is the UUID that clusters and indices without one report.
const unknownUUID = "_na_"

// IndexUUIDs reads the UUIDs of those indices of a target that exist. *target.Client is one.
type IndexUUIDs interface {
	IndexUUIDs(ctx context.Context, names []string) (map[string]string, error)
}

// CheckSource returns an ErrSourceIsTarget when the plan would write into an index of the cluster that its snapshot was
// taken of: the cluster has the UUID of the snapshot and a target has the name of an index of the source, or an index of
// the target has the UUID of one of the source. With equal cluster UUIDs and other names only it returns a warning.
// What either side does not report is unknown and equals nothing. allowed makes a warning of the error.
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
		return nil, nil // no permission; the UUID of the cluster needs none
	}
	var same []string
	for name, uuid := range uuids {
		if source[uuid] {
			same = append(same, name)
		}
	}
	return same, err
}

// sameCluster reports whether the snapshot was taken of the cluster with a UUID. A snapshot whose global metadata cannot be
// read, or holds no UUID, may be of any cluster.
func sameCluster(ctx context.Context, plan *plan.Plan, clusterUUID string) (bool, error) {
	if plan.Source == nil || clusterUUID == "" || clusterUUID == unknownUUID {
		return false, nil
	}
	sections, err := plan.Source.Global(ctx)
	if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
		return false, err
	}
	if err != nil {
		return false, nil //nolint:nilerr // who needs the metadata reports it
	}
	for _, key := range []string{"cluster_uuid", "uuid"} { // the latter before Elasticsearch 2
		var uuid string
		if json.Unmarshal(sections[key], &uuid) == nil && uuid == clusterUUID {
			return true, nil
		}
	}
	return false, nil
}
