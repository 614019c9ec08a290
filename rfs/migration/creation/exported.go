package creation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// ExportedName is the file of an export that describes its indices.
	ExportedName = "rfsd-mappings.json"
	// maxExported bounds the size of that file in bytes.
	maxExported = 256 << 20
)

// exportedIndices holds the converted mappings, settings and aliases of an export by target index. A data stream has one mapping for each
// backing index, and settings and aliases of the last one. Earlier versions wrote only mappings.
type exportedIndices struct {
	Format   int                          `json:"rfsd_mappings"`
	Indices  map[string][]json.RawMessage `json:"indices"`
	Settings map[string]map[string]any    `json:"settings,omitempty"`
	Aliases  map[string]json.RawMessage   `json:"aliases,omitempty"`
}

// EncodeExported returns the content of the file that describes the indices of a plan. It omits indices whose mapping cannot be converted.
func EncodeExported(ctx context.Context, indices *Indices, p *plan.Plan) ([]byte, error) {
	all := exportedIndices{Format: 1, Indices: map[string][]json.RawMessage{}, Settings: map[string]map[string]any{}, Aliases: map[string]json.RawMessage{}}
	for _, x := range p.Indices {
		if x.Source == nil {
			continue
		}
		wanted, err := indices.Wanted(ctx, x)
		if err != nil {
			return nil, err
		}
		for _, w := range wanted {
			if w.Overrides.Aliases != metadata.AliasesNone {
				w.Overrides.Aliases = metadata.AliasesLate // apart from the body
			}
			done, err := metadata.ConvertIndex(target.Version{Distribution: "opensearch", Number: "3.0.0", Major: 3}, w)
			var body struct {
				Mappings json.RawMessage
				Settings map[string]any
			}
			if err != nil || json.Unmarshal(done.Body, &body) != nil {
				continue
			}
			if len(body.Mappings) == 0 {
				body.Mappings = json.RawMessage("{}")
			}
			all.Indices[w.Name], all.Settings[w.Name] = append(all.Indices[w.Name], body.Mappings), body.Settings
			if done.Late != nil {
				all.Aliases[w.Name] = done.Late
			}
		}
	}
	b, err := json.Marshal(all)
	return append(b, '\n'), err
}

// ReadExported returns the indices of an export as a plan, with one index for each of their mappings; nil if the export does not describe
// them.
func ReadExported(ctx context.Context, blobs snapshot.Repository) (*plan.Plan, error) {
	r, err := blobs.Open(ctx, ExportedName, 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxExported+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", ExportedName, err)
	}
	var all exportedIndices
	switch err := json.Unmarshal(b, &all); {
	case len(b) > maxExported:
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", ExportedName, maxExported, fault.ErrUnsupported)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", ExportedName, err, fault.ErrCorrupt)
	case all.Format != 1:
		return nil, fmt.Errorf("%s has the format %d, this rfsd knows 1: %w", ExportedName, all.Format, fault.ErrUnsupported)
	}
	p := &plan.Plan{}
	for _, name := range slices.Sorted(maps.Keys(all.Indices)) {
		for _, body := range all.Indices[name] {
			p.Indices = append(p.Indices, plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: name}, Create: true},
				Source: &snapshot.Index{Name: name, Settings: metadata.IndexSettings(all.Settings[name]), Mappings: []snapshot.Mapping{{Type: "_doc", Body: body}}, Aliases: all.Aliases[name]}})
		}
	}
	return p, nil
}

// Exported creates indices as an export describes them. It is safe for concurrent use.
type Exported struct {
	Indices *Indices
	Files   snapshot.Repository

	mu sync.Mutex
	by map[string]plan.Index // not changed after it was read; nil: it has not been read
}

// Make creates an index with a mark unless the target has it. known is false if the export does not describe the index.
func (e *Exported) Make(ctx context.Context, index string, mark objects.Mark) (created, known bool, err error) {
	by, err := e.read(ctx)
	x, known := by[index]
	if err != nil || !known {
		return false, false, err
	}
	x.Mark = mark
	made, err := e.Indices.Make(ctx, x)
	return len(made.Created) > 0, true, err
}

// Aliases returns all described aliases by index. Make sets those that need not wait for the documents.
func (e *Exported) Aliases(ctx context.Context) (map[string]json.RawMessage, error) {
	by, err := e.read(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	for name, x := range by {
		if len(x.Source.Aliases) == 0 {
			continue
		}
		is, err := e.Indices.Aliases(ctx, x)
		if err != nil {
			return nil, err
		}
		all[name] = is[name]
	}
	return all, nil
}

// Names returns the sorted names of the described indices.
func (e *Exported) Names(ctx context.Context) ([]string, error) {
	by, err := e.read(ctx)
	return slices.Sorted(maps.Keys(by)), err
}

// read returns the described indices by name. It reads them once.
func (e *Exported) read(ctx context.Context) (map[string]plan.Index, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by != nil {
		return e.by, nil
	}
	p, err := ReadExported(ctx, e.Files)
	if err != nil {
		return nil, err
	}
	e.by = map[string]plan.Index{}
	if p != nil {
		for _, x := range p.Indices { // the last backing index of a data stream takes the writes
			x.Entry.Create = false
			e.by[x.Name] = x
		}
	}
	return e.by, nil
}
