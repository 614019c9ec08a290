package metadata

import (
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/destination/metadata/dates"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// replacement describes the conversion of a type that not every target has.
type replacement struct {
	rule         string
	major, minor int // first OpenSearch that has the native type; 0 for none
	native       string
	plugin       bool // kept until the target rejects it
	otherwise    map[string]any
	lossy        bool // searches of otherwise find less, or something else
}

// opaque is a field that keeps any value in the document without indexing it.
var opaque = map[string]any{"type": "object", "enabled": false}

func typed(name string) map[string]any { return map[string]any{"type": name} }

// elasticTypes lists the types that some or all versions of OpenSearch lack.
var elasticTypes = map[string]replacement{
	"flattened":               {rule: "flattened", major: 2, minor: 7, native: "flat_object", otherwise: opaque, lossy: true},
	"flat_object":             {rule: "flattened", major: 2, minor: 7, native: "flat_object", otherwise: opaque, lossy: true},
	"wildcard":                {rule: "wildcard", major: 2, minor: 15, native: "wildcard", otherwise: typed("keyword")},
	"constant_keyword":        {rule: "constant-keyword", major: 2, minor: 14, native: "constant_keyword", otherwise: typed("keyword")},
	"match_only_text":         {rule: "match-only-text", major: 2, minor: 12, native: "match_only_text", otherwise: typed("text")},
	"pattern_text":            {rule: "match-only-text", otherwise: typed("text")},
	"annotated_text":          {rule: "match-only-text", plugin: true, otherwise: typed("text")},
	"unsigned_long":           {rule: "unsigned-long", major: 2, minor: 8, native: "unsigned_long", otherwise: typed("double"), lossy: true},
	"version":                 {rule: "version-type", otherwise: typed("keyword"), lossy: true},
	"icu_collation_keyword":   {rule: "elastic-type", plugin: true, otherwise: typed("keyword"), lossy: true},
	"counted_keyword":         {rule: "elastic-type", otherwise: typed("keyword")},
	"semantic_text":           {rule: "semantic-text", otherwise: opaque, lossy: true}, // documents of 8.15–8.17 have objects there
	"dense_vector":            {rule: "dense-vector", otherwise: opaque, lossy: true},  // unless denseVector converts it
	"sparse_vector":           {rule: "sparse-vector", otherwise: opaque, lossy: true},
	"rank_vectors":            {rule: "sparse-vector", otherwise: opaque, lossy: true},
	"knn_vector":              {rule: "dense-vector", plugin: true, otherwise: opaque, lossy: true},
	"histogram":               {rule: "histogram", otherwise: histogramParts, lossy: true},
	"exponential_histogram":   {rule: "histogram", otherwise: opaque, lossy: true},
	"tdigest":                 {rule: "histogram", otherwise: opaque, lossy: true},
	"aggregate_metric_double": {rule: "aggregate-metric", otherwise: opaque, lossy: true}, // unless aggregateMetric converts it
	"point":                   {rule: "elastic-type", otherwise: opaque, lossy: true},
	"shape":                   {rule: "elastic-type", otherwise: opaque, lossy: true},
	"attachment":              {rule: "elastic-type", otherwise: opaque, lossy: true},
	"murmur3":                 {rule: "elastic-type", plugin: true, otherwise: opaque, lossy: true},
	"passthrough":             {rule: "elastic-type", otherwise: typed("object")},
}

// histogramParts makes documents searchable by the existence of a histogram, and by its values.
var histogramParts = map[string]any{"type": "object", "dynamic": false, "properties": map[string]any{
	"values": map[string]any{"type": "double", "ignore_malformed": true}, "counts": map[string]any{"type": "long", "ignore_malformed": true},
}}

// elasticType replaces types that the target lacks, and drops options of the old type.
func elasticType(e *edit, path string, f map[string]any) {
	old, _ := f["type"].(string)
	r, ok := elasticTypes[old]
	if !ok {
		r.rule = "elastic-type"
	}
	switch {
	case !e.on(r.rule):
		return
	case e.unsupported.types[old]:
		if r.major = 0; r.otherwise == nil {
			r.otherwise, r.lossy = opaque, true
		}
	case !ok, r.plugin, e.version.Distribution == "elasticsearch":
		return
	}
	if old == "constant_keyword" && f["value"] == nil {
		r.major = 0 // the target requires the value, which Elasticsearch takes from the first document
	}
	if r.major > 0 && e.since(r.major, r.minor) && !e.unsupported.types[r.native] {
		if r.native == old {
			return
		}
		r.otherwise, r.lossy = typed(r.native), false
	}
	e.replace(r, path, f)
}

// replace replaces the type of a field by r.otherwise.
func (e *edit) replace(r replacement, path string, f map[string]any) {
	old := f["type"]
	for _, k := range keys(f) {
		if !survives(r.otherwise["type"], k) {
			delete(f, k)
		}
	}
	for k, v := range r.otherwise {
		f[k] = rules.Clone(v)
	}
	note := e.note
	if r.lossy {
		note = e.lose
	}
	if r.otherwise["enabled"] == false {
		note(r.rule, path, "%v is kept in documents but not indexed: the target has no such type", old)
		return
	}
	note(r.rule, path, "%v is %v", old, f["type"])
}

// survives reports whether an option of a replaced type has the same meaning for the new type.
func survives(typ any, option string) bool {
	switch typ {
	case "keyword":
		return slices.Contains([]string{"fields", "copy_to", "ignore_above", "null_value", "index", "doc_values", "store"}, option)
	case "text":
		return slices.Contains([]string{"fields", "copy_to", "analyzer", "store"}, option)
	case "double":
		return slices.Contains([]string{"fields", "copy_to", "null_value", "index", "doc_values", "store", "ignore_malformed"}, option)
	case "object":
		return option == "properties"
	}
	return false
}

// aggregateMetric converts an aggregate_metric_double to an object of its metrics. Each metric can be
// searched and aggregated by its name.
func aggregateMetric(e *edit, path string, f map[string]any) {
	metrics, ok := f["metrics"].([]any)
	if f["type"] != "aggregate_metric_double" || !ok || Text(f["ignore_malformed"]) == "true" {
		return
	}
	parts := map[string]any{}
	for _, m := range metrics {
		if name := Text(m); name != "" {
			parts[name] = typed("double")
		}
	}
	for _, k := range keys(f) {
		delete(f, k)
	}
	f["type"], f["dynamic"], f["properties"] = "object", false, parts
	e.lose("aggregate-metric", path, "an object with a field for each metric; aggregations name %s.<metric>", path)
}

// dateFormats converts the format of date fields.
func dateFormats(e *edit, path string, f map[string]any) {
	s, ok := f["format"].(string)
	if t := f["type"]; !ok || t != "date" && t != "date_nanos" && t != "date_range" {
		return
	}
	s = e.dateFormat(path, s)
	if e.created < 2 && !strings.Contains(s, "epoch_") {
		e.note("date-format", path, "epoch_millis is added: Elasticsearch 1 took milliseconds besides any format")
		s += "||epoch_millis"
	}
	f["format"] = s
}

// dateFormat returns a format as every target accepts it.
func (e *edit) dateFormat(path, format string) string {
	if !e.on("date-format") {
		return format
	}
	out := dates.Format(e.created, format)
	if out != format {
		e.note("date-format", path, "%s is %s", format, out)
	}
	return out
}
