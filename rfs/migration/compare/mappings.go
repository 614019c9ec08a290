package compare

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ExportedFields adds the fields whose types differ from the mappings of an export to a report. Without such mappings it adds nothing.
func ExportedFields(ctx context.Context, blobs snapshot.Repository, client *target.Client, v target.Version, r *verify.Report, log *slog.Logger) error {
	p, err := creation.ReadExported(ctx, blobs)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported) {
		r.Warnings = append(r.Warnings, "the types of fields were not compared: "+fault.Text(err))
		return nil
	}
	if err != nil || p == nil {
		return err
	}
	mappings := Fields{Target: client, TypesOnly: true,
		Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: client}, Version: v, Requester: client, Log: log}}
	all, warnings, err := mappings.Fields(ctx, p)
	addFields(r, all, warnings)
	return err
}

// addFields adds the fields that differ to the indices of a report.
func addFields(r *verify.Report, all map[string][]verify.FieldDifference, warnings []string) {
	for _, x := range r.Indices {
		x.Fields = all[x.Target]
	}
	r.Warnings = append(r.Warnings, warnings...)
}
