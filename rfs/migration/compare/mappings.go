package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// MappingsName is the file of an export that holds the mappings of its indices.
	MappingsName = "rfsd-mappings.json"
	// maxMappings bounds the size of that file in bytes.
	maxMappings = 256 << 20
)

// exportedMappings holds the converted mappings of an export by target index. A data stream has one mapping for each backing index.
type exportedMappings struct {
	Format  int                          `json:"rfsd_mappings"`
	Indices map[string][]json.RawMessage `json:"indices"`
}

// EncodeMappings returns the content of the file with the mappings of the indices of a plan. It omits indices whose mapping cannot be converted.
func EncodeMappings(ctx context.Context, indices *creation.Indices, p *plan.Plan) ([]byte, error) {
	all := exportedMappings{Format: 1, Indices: map[string][]json.RawMessage{}}
	for _, x := range p.Indices {
		if x.Source == nil {
			continue
		}
		wanted, err := indices.Wanted(ctx, x)
		if err != nil {
			return nil, err
		}
		for _, w := range wanted {
			done, err := metadata.ConvertIndex(target.Version{Distribution: "opensearch", Number: "3.0.0", Major: 3}, w)
			var body struct{ Mappings json.RawMessage }
			if err == nil && json.Unmarshal(done.Body, &body) == nil && len(body.Mappings) > 0 {
				all.Indices[w.Name] = append(all.Indices[w.Name], body.Mappings)
			}
		}
	}
	b, err := json.Marshal(all)
	return append(b, '\n'), err
}

// readMappings returns the mappings of an export as a plan of its indices; nil if the export has none.
func readMappings(ctx context.Context, blobs snapshot.Repository) (*plan.Plan, error) {
	r, err := blobs.Open(ctx, MappingsName, 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxMappings+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", MappingsName, err)
	}
	var all exportedMappings
	switch err := json.Unmarshal(b, &all); {
	case len(b) > maxMappings:
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", MappingsName, maxMappings, fault.ErrUnsupported)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", MappingsName, err, fault.ErrCorrupt)
	case all.Format != 1:
		return nil, fmt.Errorf("%s has the format %d, this rfsd knows 1: %w", MappingsName, all.Format, fault.ErrUnsupported)
	}
	p := &plan.Plan{}
	for _, name := range slices.Sorted(maps.Keys(all.Indices)) {
		for _, body := range all.Indices[name] {
			p.Indices = append(p.Indices, plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: name}, Create: true},
				Source: &snapshot.Index{Name: name, Mappings: []snapshot.Mapping{{Type: "_doc", Body: body}}}})
		}
	}
	return p, nil
}

// ExportedFields adds the fields whose types differ from the mappings of an export to a report. Without such mappings it adds nothing.
func ExportedFields(ctx context.Context, blobs snapshot.Repository, client *target.Client, v target.Version, r *verify.Report, log *slog.Logger) error {
	p, err := readMappings(ctx, blobs)
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
