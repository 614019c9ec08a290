package preflight

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestEvaluator_MappingsOverALimit: the limits are those of the settings with which an index would be created.
func TestEvaluator_MappingsOverALimit(t *testing.T) {
	deep := `{"type":"keyword"}`
	for range 20 {
		deep = `{"properties":{"a":` + deep + `}}`
	}
	const fields = "index.mapping.total_fields.limit"
	for _, c := range []struct {
		name, mapping string
		settings      map[string]string
		want          string
	}{
		{"small", `{"properties":{"a":{"type":"keyword"}}}`, nil, "[]"},
		{"as many fields as the limit", `{"properties":{"a":{"type":"text","fields":{"b":{"type":"keyword"}}}}}`, map[string]string{fields: "2"}, "[]"},
		{"a field too many", `{"properties":{"a":{"type":"text","fields":{"b":{"type":"keyword"}}}}}`, map[string]string{fields: "1"}, "[{" + fields + " 2 1}]"},
		{"20 levels of objects", deep, nil, "[]"},
		{"21 levels of objects", `{"properties":{"a":` + deep + `}}`, nil, "[{index.mapping.depth.limit 21 20}]"},
		{"an object", `{"properties":{"a":{"type":"object"}}}`, map[string]string{"index.mapping.depth.limit": "1"}, "[{index.mapping.depth.limit 2 1}]"},
		{"nested fields", `{"properties":{"a":{"type":"nested"},"b":{"type":"nested"}}}`, map[string]string{"index.mapping.nested_fields.limit": "1"}, "[{index.mapping.nested_fields.limit 2 1}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Evaluator{Version: opensearch2}
			mappings := []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}
			x := plan.Index{Name: "x", Source: &snapshot.Index{Name: "x", Settings: c.settings, Mappings: mappings}}
			settings := map[string]string{"index.number_of_shards": "1", "index.version.created": "7100299"}
			for k, v := range c.settings {
				settings[k] = v
			}
			wanted := []metadata.Wanted{{Name: "x", Index: metadata.Index{Settings: settings, Mappings: []metadata.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}}}
			for _, w := range [][]metadata.Wanted{nil, wanted} {
				if got := fmt.Sprint(e.overOf(x, w)); got != c.want {
					t.Errorf("to be created %v: %s, want %s", w != nil, got, c.want)
				}
			}
		})
	}
}
