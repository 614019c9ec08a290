package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// DryRunTarget is the cluster that a dry run queries. *target.Client is one.
type DryRunTarget interface {
	rest.API
	IndexExists(ctx context.Context, name string) (bool, error)
	FinalPipelines(ctx context.Context, indices []string) (map[string]string, error)
	PipelineEffects(ctx context.Context, name string) ([]string, error)
	UnfitAliases(ctx context.Context, names []string) (map[string]string, error)
}

// DryRunCluster wraps a target and prevents writes: it replaces a request to create an object by the target's
// simulation of a template. The simulation parses settings, analysis and mappings with the target's version
// and plugins and stores nothing, so that it rejects the same objects with the same messages.
type DryRunCluster struct {
	Target DryRunTarget
	Blind  bool // the target permits no simulation: every object counts as accepted
}

// Permitted returns the error of a simulation of an empty template; nil if the target permits simulations.
func (r DryRunCluster) Permitted(ctx context.Context) error {
	return r.simulate(ctx, "POST /_index_template/_simulate", nil)
}

const (
	simulated         = "rfsd-evaluates-and-nothing-is-called-so-*" // matches no existing index
	simulatedPriority = 2_147_000_000                               // targets reject matching templates of equal priority
)

// IndexExists passes the request to the target.
func (r DryRunCluster) IndexExists(ctx context.Context, name string) (bool, error) {
	return r.Target.IndexExists(ctx, name)
}

// PipelineEffects passes the request to the target.
func (r DryRunCluster) PipelineEffects(ctx context.Context, name string) ([]string, error) {
	return r.Target.PipelineEffects(ctx, name)
}

// FinalPipelines passes the request to the target.
func (r DryRunCluster) FinalPipelines(ctx context.Context, indices []string) (map[string]string, error) {
	return r.Target.FinalPipelines(ctx, indices)
}

// UnfitAliases passes the request to the target.
func (r DryRunCluster) UnfitAliases(ctx context.Context, names []string) (map[string]string, error) {
	return r.Target.UnfitAliases(ctx, names)
}

// SetAliases does nothing.
func (DryRunCluster) SetAliases(context.Context, string, json.RawMessage) error { return nil }

// CreateTypedIndex does nothing: targets that know mapping types have no simulation.
func (DryRunCluster) CreateTypedIndex(context.Context, string, string, []byte) error { return nil }

// CreateIndex returns an error if the target would reject the index.
func (r DryRunCluster) CreateIndex(ctx context.Context, name string, body []byte) error {
	if why := metadata.RefusedName(name); why != "" {
		return fmt.Errorf("index name %q: %s: %w", name, why, fault.ErrRejected)
	}
	_, size, shards := withoutPartition(body)
	if err := checkPartition(name, size, shards); err != nil {
		return err
	}
	return r.simulate(ctx, "PUT /"+url.PathEscape(name), body)
}

// simulate posts settings, mappings and aliases as a template that the target does not store.
func (r DryRunCluster) simulate(ctx context.Context, call string, template json.RawMessage) error {
	if r.Blind {
		return nil
	}
	if len(template) == 0 {
		template = json.RawMessage("{}")
	}
	template, _, _ = withoutPartition(template)
	body, err := json.Marshal(map[string]any{"index_patterns": []string{simulated}, "priority": simulatedPriority, "template": template})
	if err != nil {
		return fmt.Errorf("simulate %s: %w: %w", call, err, fault.ErrCorrupt)
	}
	status, answer, err := r.Target.Do(ctx, http.MethodPost, "/_index_template/_simulate", nil, body)
	if errors.Is(err, target.ErrNotAnswered) {
		return nil // errors will show when the index is created
	}
	if err != nil {
		return err
	}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || strings.Contains(string(answer), "no handler found") {
		return nil // an old target: errors will show when the index is created
	}
	return fault.CheckStatus(call, status, answer)
}

// Do passes read requests to the target and simulates requests that create objects.
func (r DryRunCluster) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	if method == http.MethodGet || method == http.MethodHead {
		return r.Target.Do(ctx, method, path, query, body)
	}
	done := []byte(`{"acknowledged":true}`)
	var err error
	switch {
	case strings.HasPrefix(path, "/_template/"):
		err = r.simulate(ctx, method+" "+path, templateSections(body))
	case strings.HasPrefix(path, "/_component_template/"), strings.HasPrefix(path, "/_index_template/"):
		var o struct {
			Template json.RawMessage `json:"template"`
		}
		if err = json.Unmarshal(body, &o); err == nil {
			err = r.simulate(ctx, method+" "+path, o.Template)
		}
	case strings.HasPrefix(path, "/_ingest/pipeline/"):
		return r.simulatePipeline(ctx, body)
	}
	var refused *fault.StatusError
	switch {
	case err == nil:
		return http.StatusOK, done, nil
	case errors.As(err, &refused): // in the form of the target's own answer
		answer, merr := json.Marshal(map[string]any{"error": map[string]any{"type": refused.Type, "reason": refused.Reason}, "status": refused.Status})
		return refused.Status, answer, merr
	}
	return 0, nil, err
}

// templateSections returns the parts of a legacy template that composable templates have too.
func templateSections(body []byte) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return body
	}
	some := map[string]json.RawMessage{}
	for _, key := range []string{"settings", "mappings", "aliases"} {
		if v, ok := all[key]; ok {
			some[key] = v
		}
	}
	b, err := json.Marshal(some)
	if err != nil {
		return body
	}
	return b
}

// simulatePipeline makes the target build the pipeline's processors and run them on an empty document,
// whose result is ignored.
func (r DryRunCluster) simulatePipeline(ctx context.Context, pipeline []byte) (int, []byte, error) {
	body, err := json.Marshal(map[string]any{"pipeline": json.RawMessage(pipeline), "docs": []any{map[string]any{"_source": map[string]any{}}}})
	if err != nil {
		return 0, nil, fmt.Errorf("simulate pipeline: %w: %w", err, fault.ErrCorrupt)
	}
	return r.Target.Do(ctx, http.MethodPost, "/_ingest/pipeline/_simulate", nil, body)
}
