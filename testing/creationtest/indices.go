// Package creationtest helps tests of what is created on a target.
package creationtest

import (
	"context"
	"encoding/json"

	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Indices is a target that remembers what was created, by name.
type Indices struct {
	Bodies  map[string]string
	Typed   map[string]string
	Final   map[string]string
	Aliases map[string]string
	Refuse  error
	Unfit   map[string]string
	Hide    error // what the settings of indices are refused with
}

// IndexExists reports whether the index was created.
func (x *Indices) IndexExists(_ context.Context, name string) (bool, error) {
	_, ok := x.Bodies[name]
	return ok, nil
}

// CreateIndex creates an index, unless x refuses it.
func (x *Indices) CreateIndex(_ context.Context, name string, body []byte) error {
	if x.Refuse != nil {
		return x.Refuse
	}
	x.Bodies[name] = string(body)
	return nil
}

// CreateTypedIndex creates an index with the type of its documents.
func (x *Indices) CreateTypedIndex(ctx context.Context, name, typ string, body []byte) error {
	x.Typed[name] = typ
	return x.CreateIndex(ctx, name, body)
}

// UnfitAliases returns the reasons of x.
func (x *Indices) UnfitAliases(_ context.Context, names []string) (map[string]string, error) {
	found := map[string]string{}
	for _, n := range names {
		if why, ok := x.Unfit[n]; ok {
			found[n] = why
		}
	}
	return found, x.Hide
}

// PipelineEffects returns one effect of every pipeline.
func (*Indices) PipelineEffects(context.Context, string) ([]string, error) {
	return []string{"drop drops documents"}, nil
}

// FinalPipelines returns the final pipelines of x.
func (x *Indices) FinalPipelines(_ context.Context, names []string) (map[string]string, error) {
	if x.Hide != nil {
		return nil, x.Hide
	}
	found := map[string]string{}
	for _, n := range names {
		if p, ok := x.Final[n]; ok {
			found[n] = p
		}
	}
	return found, nil
}

// SetAliases sets the aliases of an index.
func (x *Indices) SetAliases(_ context.Context, index string, aliases json.RawMessage) error {
	x.Aliases[index] = string(aliases)
	return nil
}

// NewIndices returns a target without indices.
func NewIndices() *Indices {
	return &Indices{Bodies: map[string]string{}, Typed: map[string]string{}, Aliases: map[string]string{}, Final: map[string]string{}}
}

// OpenSearch2 is the version of a target.
var OpenSearch2 = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
