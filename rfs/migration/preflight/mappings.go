package preflight

import (
	"encoding/json"
	"strconv"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// MappingLimit is a limit of an index that its mapping exceeds.
type MappingLimit struct {
	Setting    string
	Has, Limit int
}

// mappingSize holds the numbers that a target limits: all fields (objects, fields and multi-fields), the depth of objects, and nested
// fields.
type mappingSize struct{ fields, depth, nested int }

// mappingLimits are the default limits of OpenSearch and Elasticsearch.
var mappingLimits = []struct {
	setting string
	limit   int
	of      func(mappingSize) int
}{
	{"index.mapping.total_fields.limit", 1000, func(s mappingSize) int { return s.fields }},
	{"index.mapping.depth.limit", 20, func(s mappingSize) int { return s.depth }},
	{"index.mapping.nested_fields.limit", 50, func(s mappingSize) int { return s.nested }},
}

// overLimits returns the limits that mappings exceed in an index with these flat settings.
func overLimits(settings map[string]string, mappings ...json.RawMessage) (over []MappingLimit) {
	size := mappingSize{depth: 1}
	for _, m := range mappings {
		var body any
		if json.Unmarshal(m, &body) == nil {
			size.add(body, 1)
		}
	}
	for _, l := range mappingLimits {
		limit := l.limit
		if n, err := strconv.Atoi(settings[l.setting]); err == nil {
			limit = n
		}
		if has := l.of(size); has > limit {
			over = append(over, MappingLimit{l.setting, has, limit})
		}
	}
	return over
}

// add adds the fields of an object at a depth.
func (s *mappingSize) add(v any, depth int) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, key := range []string{"properties", "fields"} {
		inner, _ := m[key].(map[string]any)
		for _, field := range inner {
			s.fields++
			is, _ := field.(map[string]any)
			if _, object := is["properties"]; object || is["type"] == "object" || is["type"] == "nested" {
				s.depth = max(s.depth, depth+1)
			}
			if is["type"] == "nested" {
				s.nested++
			}
			s.add(field, depth+1)
		}
	}
}

// overOf returns the limits that the mappings of an index exceed on the target: the converted mappings in wanted or, without wanted, the
// mappings in the snapshot.
func (e *Evaluator) overOf(x plan.Index, wanted []metadata.Wanted) []MappingLimit {
	for _, w := range wanted {
		done, err := metadata.ConvertIndex(e.Version, w)
		var body struct {
			Settings map[string]any  `json:"settings"`
			Mappings json.RawMessage `json:"mappings"`
		}
		if err != nil || json.Unmarshal(done.Body, &body) != nil {
			continue // rejected for another reason
		}
		if over := overLimits(metadata.IndexSettings(body.Settings), body.Mappings); len(over) > 0 {
			return over
		}
	}
	if len(wanted) > 0 {
		return nil
	}
	var mappings []json.RawMessage
	for _, m := range x.Source.Mappings {
		mappings = append(mappings, m.Body)
	}
	return overLimits(x.Source.Settings, mappings...)
}
