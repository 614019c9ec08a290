package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxEffects bounds the processors of a pipeline that are named, maxNesting how deep they are looked for.
const (
	maxEffects = 10
	maxNesting = 8
)

// PipelineEffects describes the processors of an ingest pipeline that can drop a document or give it another index, id or routing,
// in their order, as far as they can be recognized. It returns none for a pipeline that does not exist.
func (c *Client) PipelineEffects(ctx context.Context, name string) ([]string, error) {
	var all map[string]struct {
		Processors []map[string]json.RawMessage `json:"processors"`
	}
	err := c.get(ctx, "/_ingest/pipeline/"+url.PathEscape(name), nil, &all)
	var status *fault.StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", name, err)
	}
	return effects(all[name].Processors, maxNesting), nil
}

// effects describes processors, those that they contain included.
func effects(processors []map[string]json.RawMessage, nesting int) (all []string) {
	for _, p := range processors {
		for _, kind := range slices.Sorted(maps.Keys(p)) {
			all = append(all, effect(kind, p[kind], nesting)...)
		}
		if len(all) > maxEffects {
			return append(all[:maxEffects], "…")
		}
	}
	return all
}

// effect describes one processor.
func effect(kind string, raw json.RawMessage, nesting int) []string {
	var is struct {
		Field     string                     `json:"field"`
		Target    string                     `json:"target_field"`
		Source    string                     `json:"source"`
		Script    string                     `json:"id"`
		Name      string                     `json:"name"`
		If        string                     `json:"if"`
		Processor map[string]json.RawMessage `json:"processor"`
	}
	if json.Unmarshal(raw, &is) != nil { // fields of other types belong to processors that are not described
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
		return []string{"pipeline runs " + is.Name + sometimes}
	case "foreach":
		if nesting > 0 {
			return effects([]map[string]json.RawMessage{is.Processor}, nesting-1)
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
