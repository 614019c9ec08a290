package metadata

import (
	"encoding/json"
	"slices"
	"strings"
)

// fieldRule converts one thing about a field in place. Rules run in order: first those that
// give old types their new names, then those that clean options of the new types.
type fieldRule struct {
	name  string
	apply func(e *edit, rule, path string, f map[string]any)
}

var fieldRules = []fieldRule{
	{"multi-field", multiField},
	{"string-to-text", stringType},
	{"elastic-type", elasticType},
	{"old-option", oldOption},
	{"boolean-option", booleanOption},
	{"legacy-similarity", legacySimilarity},
	{"date-format", dateFormats},
}

// multiField: Elasticsearch 1.x had a type for what is now "fields"; the subfield that bears
// the field's own name is the field itself.
func multiField(e *edit, rule, path string, f map[string]any) {
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
	e.note(rule, path, "one field of type %v with subfields", f["type"])
}

// keywordOnly and textOnly are options that the other one refuses.
var (
	keywordOnly = []string{"ignore_above", "doc_values", "null_value", "normalizer", "eager_global_ordinals"}
	textOnly    = []string{"analyzer", "search_analyzer", "search_quote_analyzer", "index_options", "term_vector", "position_increment_gap",
		"fielddata", "fielddata_frequency_filter", "index_prefixes", "index_phrases", "norms"}
)

// stringType: string became text (analyzed) and keyword (not analyzed) in Elasticsearch 5.
func stringType(e *edit, rule, path string, f map[string]any) {
	if f["type"] != "string" {
		return
	}
	rename(f, "index_analyzer", "analyzer")
	rename(f, "position_offset_gap", "position_increment_gap")
	if n, ok := f["norms"].(map[string]any); ok {
		f["norms"] = n["enabled"]
		if n["enabled"] == nil {
			delete(f, "norms")
		}
	}
	if v, ok := f["omit_norms"]; ok {
		f["norms"] = text(v) != "true"
		delete(f, "omit_norms")
	}
	if _, ok := f["fielddata"].(map[string]any); ok {
		delete(f, "fielddata")
	}
	index := text(f["index"])
	if index == "not_analyzed" || index == "no" || index == "false" {
		f["type"] = "keyword"
		drop(f, textOnly)
	} else {
		f["type"] = "text"
		delete(f, "index")
		drop(f, keywordOnly)
	}
	e.note(rule, path, "string (index: %s) is %v", orDefault(index, "analyzed"), f["type"])
}

// kept as it is when the target is young enough, else replaced.
type replacement struct {
	major, minor int // first OpenSearch that has the type; 0 for none
	native       string
	plugin       bool // kept until the target refuses it
	otherwise    map[string]any
}

// opaque keeps the value in the document and indexes nothing of it, whatever it is.
var opaque = map[string]any{"type": "object", "enabled": false}

// elasticTypes lists types that not every OpenSearch has.
var elasticTypes = map[string]replacement{
	"flattened":               {major: 2, minor: 7, native: "flat_object", otherwise: opaque},
	"flat_object":             {major: 2, minor: 7, native: "flat_object", otherwise: opaque},
	"wildcard":                {major: 2, minor: 15, native: "wildcard", otherwise: map[string]any{"type": "keyword"}},
	"constant_keyword":        {major: 2, minor: 14, native: "constant_keyword", otherwise: map[string]any{"type": "keyword"}},
	"match_only_text":         {major: 2, minor: 12, native: "match_only_text", otherwise: map[string]any{"type": "text"}},
	"unsigned_long":           {major: 2, minor: 8, native: "unsigned_long", otherwise: map[string]any{"type": "double"}},
	"version":                 {otherwise: map[string]any{"type": "keyword"}},
	"icu_collation_keyword":   {plugin: true, otherwise: map[string]any{"type": "keyword"}},
	"counted_keyword":         {otherwise: map[string]any{"type": "keyword"}},
	"pattern_text":            {otherwise: map[string]any{"type": "text"}},
	"annotated_text":          {plugin: true, otherwise: map[string]any{"type": "text"}},
	"semantic_text":           {otherwise: opaque}, // documents of 8.15–8.17 hold objects there
	"dense_vector":            {otherwise: opaque},
	"sparse_vector":           {otherwise: opaque},
	"rank_vectors":            {otherwise: opaque},
	"knn_vector":              {plugin: true, otherwise: opaque},
	"histogram":               {otherwise: opaque},
	"exponential_histogram":   {otherwise: opaque},
	"tdigest":                 {otherwise: opaque},
	"aggregate_metric_double": {otherwise: opaque},
	"point":                   {otherwise: opaque},
	"shape":                   {otherwise: opaque},
	"attachment":              {otherwise: opaque},
	"murmur3":                 {plugin: true, otherwise: opaque},
	"passthrough":             {otherwise: map[string]any{"type": "object"}},
}

// elasticType replaces types that the target lacks; options of the old type go with it.
func elasticType(e *edit, rule, path string, f map[string]any) {
	old, _ := f["type"].(string)
	r, ok := elasticTypes[old]
	switch {
	case e.lacks.types[old]:
		if r.major = 0; r.otherwise == nil {
			r.otherwise = opaque
		}
	case !ok, r.plugin, e.version.Distribution == "elasticsearch":
		return
	}
	if old == "constant_keyword" && f["value"] == nil {
		r.major = 0 // the target demands the value, which later documents would set
	}
	if r.major > 0 && e.since(r.major, r.minor) && !e.lacks.types[r.native] {
		if r.native == old {
			return
		}
		r.otherwise = map[string]any{"type": r.native}
	}
	for _, k := range keys(f) {
		if !survives(r.otherwise["type"], k) {
			delete(f, k)
		}
	}
	for k, v := range r.otherwise {
		f[k] = v
	}
	if r.otherwise["enabled"] == false {
		e.note(rule, path, "%s is kept in documents but not indexed: the target has no such type", old)
		return
	}
	e.note(rule, path, "%s is %v", old, f["type"])
}

// survives says which options of a replaced type mean the same for the new one.
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

// oldOptions are dropped wherever they stand: they steered how an index was built and no target knows them.
var oldOptions = []string{
	"include_in_all", "index_name", "postings_format", "doc_values_format", "precision_step", "fuzzy_factor", "numeric_resolution",
	"omit_norms", "omit_term_freq_and_positions", "geohash", "geohash_prefix", "geohash_precision", "lat_lon", "validate", "validate_lat",
	"validate_lon", "normalize", "normalize_lat", "normalize_lon", "tree", "tree_levels", "precision", "strategy", "distance_error_pct",
	"points_only", "payloads", "compress", "compress_threshold", "boost", "rounding",
	// of Elasticsearch 7.11 and later
	"time_series_dimension", "time_series_metric", "synthetic_source_keep", "script", "on_script_error", "subobjects", "priority",
}

// oldOption drops options that no target knows.
func oldOption(e *edit, rule, path string, f map[string]any) {
	for _, k := range oldOptions {
		if v, ok := f[k]; ok {
			e.note(rule, path, "dropped %s: %s", k, brief(v))
			delete(f, k)
		}
	}
	if v, ok := f["path"]; ok && f["type"] != "alias" {
		e.note(rule, path, "dropped path: %s", brief(v))
		delete(f, "path")
	}
	if _, ok := f["fielddata"].(map[string]any); ok {
		e.note(rule, path, "dropped fielddata: %s", brief(f["fielddata"]))
		delete(f, "fielddata")
	}
	switch f["type"] {
	case "geo_point":
		delete(f, "coerce")
	case "completion":
		rename(f, "index_analyzer", "analyzer")
		if v, ok := f["context"]; ok {
			e.note(rule, path, "dropped context: %s", brief(v))
			delete(f, "context")
		}
	case "text", "keyword":
	default:
		drop(f, []string{"norms", "analyzer_name", "similarity"})
	}
	if f["type"] == "text" {
		rename(f, "index_analyzer", "analyzer")
	}
}

// booleans that old versions wrote as words or in quotes.
var booleans = []string{"index", "store", "doc_values", "norms", "enabled", "ignore_malformed", "coerce", "fielddata",
	"eager_global_ordinals", "include_in_parent", "include_in_root", "ignore_z_value"}

// booleanOption writes old words (not_analyzed, no, yes, on, "true") as booleans.
func booleanOption(_ *edit, _, _ string, f map[string]any) {
	for _, k := range booleans {
		boolean(f, k)
	}
	if n, ok := f["norms"].(map[string]any); ok {
		delete(f, "norms")
		if n["enabled"] != nil {
			f["norms"] = n["enabled"]
			boolean(f, "norms")
		}
	}
}

// boolean converts m[key] when it is a word for true or false.
func boolean(m map[string]any, key string) {
	v, ok := m[key]
	if !ok {
		return
	}
	switch text(v) {
	case "true", "yes", "on", "1", "not_analyzed", "analyzed":
		m[key] = true
	case "false", "no", "off", "0":
		m[key] = false
	}
}

// legacySimilarity drops names of similarities that are built in no longer.
func legacySimilarity(e *edit, rule, path string, f map[string]any) {
	if s := text(f["similarity"]); s == "default" || s == "classic" {
		e.note(rule, path, "BM25 instead of %s", s)
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

// text gives strings, booleans and numbers as text; "" for anything else.
func text(v any) string {
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
