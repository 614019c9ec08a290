package metadata

import (
	"encoding/json"
	"slices"
	"strings"
)

// fieldRule converts one aspect of a field in place. Rules run in order: the first ones rename
// old types, the others clean options of the new types. The name is "" for
// functions that apply several named rules.
type fieldRule struct {
	name  string
	apply func(e *edit, path string, f map[string]any)
}

var fieldRules = []fieldRule{
	{"multi-field", multiField},
	{"string-to-text", stringType},
	{"dense-vector", denseVector},
	{"knn-engine", knnEngine},
	{"aggregate-metric", aggregateMetric},
	{"", elasticType},
	{"include-in-all", dropping("include-in-all", "include_in_all")},
	{"geo-shape", geoShape},
	{"field-boost", fieldBoost},
	{"time-series", dropping("time-series", "time_series_dimension", "time_series_metric")},
	{"script-field", scriptField},
	{"norms", norms},
	{"index-options", indexOptions},
	{"old-option", oldOption},
	{"boolean-option", booleanOption},
	{"legacy-similarity", legacySimilarity},
	{"date-format", dateFormats},
}

// dropping returns a rule that drops options.
func dropping(rule string, options ...string) func(*edit, string, map[string]any) {
	return func(e *edit, path string, f map[string]any) {
		for _, k := range options {
			if v, ok := f[k]; ok {
				e.note(rule, path, "dropped %s: %s", k, Brief(v))
				delete(f, k)
			}
		}
	}
}

// scriptField drops the script of a field that a script computes. The field has no values on the target.
func scriptField(e *edit, path string, f map[string]any) {
	if v, ok := f["script"]; ok {
		e.lose("script-field", path, "dropped script: %s", Brief(v))
	}
	drop(f, []string{"script", "on_script_error"})
}

// geoShape drops the options of prefix trees, which approximated shapes by cells before Elasticsearch 6.6.
func geoShape(e *edit, path string, f map[string]any) {
	if f["type"] == "geo_shape" {
		dropping("geo-shape", "tree", "tree_levels", "precision", "strategy", "distance_error_pct", "points_only")(e, path, f)
	}
}

// fieldBoost drops boosts, and reports them unless they are 1.0, the default.
func fieldBoost(e *edit, path string, f map[string]any) {
	if b, ok := f["boost"]; ok && Text(b) != "1" && Text(b) != "1.0" {
		e.lose("field-boost", path, "dropped boost: %s", Brief(b))
	}
	delete(f, "boost")
}

// norms converts old forms of norms to a boolean.
func norms(e *edit, path string, f map[string]any) {
	old := map[string]any{}
	if n, ok := f["norms"].(map[string]any); ok {
		old["norms"] = n
		delete(f, "norms")
		if n["enabled"] != nil {
			f["norms"] = n["enabled"]
			boolean(f, "norms")
		}
	}
	if v, ok := f["omit_norms"]; ok {
		old["omit_norms"] = v
		delete(f, "omit_norms")
		if f["norms"] == nil {
			f["norms"] = Text(v) != "true"
		}
	}
	if t := f["type"]; t != "text" && t != "keyword" && f["norms"] != nil {
		old["norms"] = f["norms"]
		delete(f, "norms") // other types have no norms
	}
	if len(old) > 0 {
		e.note("norms", path, "%s is norms: %s", Brief(old), Brief(f["norms"]))
	}
}

// indexOptions converts omit_term_freq_and_positions, which Elasticsearch before 0.20 used instead of index_options.
func indexOptions(e *edit, path string, f map[string]any) {
	if v, ok := f["omit_term_freq_and_positions"]; ok {
		delete(f, "omit_term_freq_and_positions")
		if f["index_options"] == nil && Text(v) == "true" && f["type"] == "text" {
			f["index_options"] = "docs"
		}
		e.note("index-options", path, "omit_term_freq_and_positions: %s is index_options: %s", Brief(v), Brief(f["index_options"]))
	}
	o, ok := f["index_options"].(string)
	if !ok {
		return
	}
	switch f["type"] {
	case "text", "search_as_you_type":
	case "keyword":
		if o == "docs" || o == "freqs" {
			return
		}
		f["index_options"] = "freqs"
		e.note("index-options", path, "freqs instead of %s, which only text has", o)
	default:
		delete(f, "index_options")
		e.note("index-options", path, "dropped %s: only text and keyword have it", o)
	}
}

// multiField converts the multi_field type of Elasticsearch 1.x to "fields". The subfield with the field's
// own name becomes the field itself.
func multiField(e *edit, path string, f map[string]any) {
	if f["type"] != "multi_field" {
		return
	}
	subs, _ := f["fields"].(map[string]any)
	own := path[strings.LastIndexByte(path, '.')+1:]
	main, ok := subs[own].(map[string]any)
	if !ok {
		main = map[string]any{"type": "string"}
	}
	delete(subs, own)
	delete(f, "type")
	for k, v := range main {
		if k != "fields" {
			f[k] = v
		}
	}
	if len(subs) == 0 {
		delete(f, "fields")
	}
	e.note("multi-field", path, "one field of type %v with subfields", f["type"])
}

// keywordOnly and textOnly are options that the other type rejects.
var (
	keywordOnly = []string{"ignore_above", "doc_values", "null_value", "normalizer", "eager_global_ordinals"}
	textOnly    = []string{"analyzer", "search_analyzer", "search_quote_analyzer", "index_options", "term_vector", "position_increment_gap",
		"fielddata", "fielddata_frequency_filter", "index_prefixes", "index_phrases", "norms", "omit_norms", "omit_term_freq_and_positions"}
)

// stringType converts string to text (analyzed) or keyword (not analyzed), as Elasticsearch 5 did.
func stringType(e *edit, path string, f map[string]any) {
	if f["type"] != "string" {
		return
	}
	rename(f, "index_analyzer", "analyzer")
	rename(f, "position_offset_gap", "position_increment_gap")
	if _, ok := f["fielddata"].(map[string]any); ok {
		delete(f, "fielddata")
	}
	index := Text(f["index"])
	if index == "not_analyzed" || index == "no" || index == "false" {
		f["type"] = "keyword"
		drop(f, textOnly)
	} else {
		f["type"] = "text"
		delete(f, "index")
		drop(f, keywordOnly)
	}
	e.note("string-to-text", path, "string (index: %s) is %v", orDefault(index, "analyzed"), f["type"])
}

// oldOptions are dropped everywhere: they controlled how an index was built and no target supports them.
var oldOptions = []string{
	"index_name", "postings_format", "doc_values_format", "precision_step", "fuzzy_factor", "numeric_resolution",
	"geohash", "geohash_prefix", "geohash_precision", "lat_lon", "validate", "validate_lat",
	"validate_lon", "normalize", "normalize_lat", "normalize_lon", "payloads", "compress", "compress_threshold", "rounding",
	// of Elasticsearch 7.11 and later
	"synthetic_source_keep", "subobjects", "priority",
}

// oldOption drops the options that no target knows.
func oldOption(e *edit, path string, f map[string]any) {
	for _, k := range oldOptions {
		if v, ok := f[k]; ok {
			e.note("old-option", path, "dropped %s: %s", k, Brief(v))
			delete(f, k)
		}
	}
	if v, ok := f["path"]; ok && f["type"] != "alias" {
		e.note("old-option", path, "dropped path: %s", Brief(v))
		delete(f, "path")
	}
	for _, k := range []string{"fielddata", "doc_values"} { // doc_values of columnar indices of Elasticsearch 9.5: cardinality, multi_value
		if _, ok := f[k].(map[string]any); ok {
			e.note("old-option", path, "dropped %s: %s", k, Brief(f[k]))
			delete(f, k)
		}
	}
	switch f["type"] {
	case "geo_point":
		delete(f, "coerce")
	case "completion":
		rename(f, "index_analyzer", "analyzer")
		if v, ok := f["context"]; ok {
			e.note("old-option", path, "dropped context: %s", Brief(v))
			delete(f, "context")
		}
	case "text", "keyword":
	default:
		drop(f, []string{"analyzer_name", "similarity"})
	}
	if f["type"] == "text" {
		rename(f, "index_analyzer", "analyzer")
	}
}

// booleans are options that old versions wrote as words or in quotes.
var booleans = []string{"index", "store", "doc_values", "norms", "enabled", "ignore_malformed", "coerce", "fielddata",
	"eager_global_ordinals", "include_in_parent", "include_in_root", "ignore_z_value"}

// booleanOption converts old words (not_analyzed, no, yes, on, "true") to booleans.
func booleanOption(_ *edit, _ string, f map[string]any) {
	for _, k := range booleans {
		boolean(f, k)
	}
}

// boolean converts m[key] if it is a word for true or false.
func boolean(m map[string]any, key string) {
	v, ok := m[key]
	if !ok {
		return
	}
	switch Text(v) {
	case "true", "yes", "on", "1", "not_analyzed", "analyzed":
		m[key] = true
	case "false", "no", "off", "0":
		m[key] = false
	}
}

// legacySimilarity drops similarities that are not built in any more, and similarities whose definitions were dropped.
func legacySimilarity(e *edit, path string, f map[string]any) {
	if s := Text(f["similarity"]); s == "default" || s == "classic" || slices.Contains(e.gone, s) && s != "" {
		e.lose("legacy-similarity", path, "BM25 instead of %s", s)
		delete(f, "similarity")
	}
}

func rename(m map[string]any, from, to string) {
	if v, ok := m[from]; ok {
		delete(m, from)
		if _, there := m[to]; !there {
			m[to] = v
		}
	}
}

func drop(m map[string]any, names []string) {
	for _, k := range names {
		delete(m, k)
	}
}

// Text returns a string, boolean or number as text; "" for any other value.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "true"
		}
		return "false"
	case json.Number:
		return v.String()
	}
	return ""
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
