package target

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits of PipelineEffects: described processors, depth of nesting, and pipelines read.
const (
	maxEffects   = 10
	maxNesting   = 8
	maxPipelines = 20
)

// PipelineEffects returns descriptions of the processors of an ingest pipeline that can drop a document or change its index, id or
// routing, in order, as far as they can be recognized. It includes pipelines that the pipeline runs, and processors that run after a
// failure. It returns none for a missing pipeline.
func (c *Client) PipelineEffects(ctx context.Context, name string) ([]string, error) {
	e := effects{client: c, seen: map[string]bool{}}
	all, _ := e.pipeline(ctx, name, maxNesting)
	return all, e.err
}

// effects collects the effects of a pipeline.
type effects struct {
	client *Client
	seen   map[string]bool // names of the pipelines that were read
	err    error
}

// pipeline describes the processors of a pipeline; known is false if it cannot be read or does not exist.
func (e *effects) pipeline(ctx context.Context, name string, nesting int) (all []string, known bool) {
	switch {
	case e.err != nil || e.seen[name]:
		return nil, true
	case nesting == 0 || len(e.seen) == maxPipelines:
		return nil, false
	}
	e.seen[name] = true
	var answer map[string]struct {
		Processors []map[string]json.RawMessage `json:"processors"`
		OnFailure  []map[string]json.RawMessage `json:"on_failure"`
	}
	err := e.client.get(ctx, "/_ingest/pipeline/"+url.PathEscape(name), nil, &answer)
	if fault.HasStatus(err, http.StatusNotFound) {
		return nil, false
	}
	if err != nil {
		e.err = fmt.Errorf("pipeline %s: %w", name, err)
		return nil, false
	}
	is, known := answer[name]
	return append(e.of(ctx, is.Processors, nesting), e.failure(ctx, is.OnFailure, nesting)...), known
}

// failure describes processors that run when another one fails.
func (e *effects) failure(ctx context.Context, processors []map[string]json.RawMessage, nesting int) (all []string) {
	if nesting == 0 {
		return nil
	}
	for _, effect := range e.of(ctx, processors, nesting-1) {
		all = append(all, "after a failure: "+effect)
	}
	return all
}

// of describes processors, including nested ones.
func (e *effects) of(ctx context.Context, processors []map[string]json.RawMessage, nesting int) (all []string) {
	for _, p := range processors {
		for _, kind := range slices.Sorted(maps.Keys(p)) {
			all = append(all, e.effect(ctx, kind, p[kind], nesting)...)
			var is struct {
				OnFailure []map[string]json.RawMessage `json:"on_failure"`
			}
			if json.Unmarshal(p[kind], &is) == nil {
				all = append(all, e.failure(ctx, is.OnFailure, nesting)...)
			}
		}
		if len(all) > maxEffects {
			return append(all[:maxEffects], "…")
		}
	}
	return all
}

// effect describes one processor.
func (e *effects) effect(ctx context.Context, kind string, raw json.RawMessage, nesting int) []string {
	var is struct {
		Field     string                     `json:"field"`
		Target    string                     `json:"target_field"`
		Source    string                     `json:"source"`
		Script    string                     `json:"id"`
		Name      string                     `json:"name"`
		If        string                     `json:"if"`
		Processor map[string]json.RawMessage `json:"processor"`
	}
	if json.Unmarshal(raw, &is) != nil { // processors with fields of other types have no effects
		return nil
	}
	sometimes := ""
	if is.If != "" {
		sometimes = " under a condition"
	}
	switch kind {
	case "drop":
		return []string{"drop drops documents" + sometimes}
	case "reroute", "date_index_name":
		return []string{kind + " gives documents another index" + sometimes}
	case "pipeline":
		inner, known := e.pipeline(ctx, is.Name, nesting-1)
		if !known {
			return []string{"pipeline runs " + is.Name + sometimes}
		}
		for i := range inner {
			inner[i] = "pipeline " + is.Name + sometimes + ": " + inner[i]
		}
		return inner
	case "foreach":
		if nesting > 0 {
			return e.of(ctx, []map[string]json.RawMessage{is.Processor}, nesting-1)
		}
	case "script":
		if is.Source == "" {
			return []string{"script runs the stored script " + is.Script + sometimes}
		}
		for _, field := range []string{"_index", "_id", "_routing"} {
			if strings.Contains(is.Source, field) {
				return []string{"script uses " + field + sometimes}
			}
		}
	default:
		for _, field := range []string{is.Field, is.Target} {
			if field == "_index" || field == "_id" || field == "_routing" {
				return []string{fmt.Sprintf("%s changes %s%s", kind, field, sometimes)}
			}
		}
	}
	return nil
}
