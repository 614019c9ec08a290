package metadata

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// keptSettings lists the settings that an index keeps; a name that ends in a dot includes all settings below it.
var keptSettings = []string{
	"index.number_of_shards", "index.number_of_replicas", "index.auto_expand_replicas", "index.number_of_routing_shards",
	"index.routing_partition_size", "index.refresh_interval", "index.hidden",
	"index.max_result_window", "index.max_inner_result_window", "index.max_rescore_window", "index.max_docvalue_fields_search",
	"index.max_script_fields", "index.max_ngram_diff", "index.max_shingle_diff", "index.max_terms_count", "index.max_regex_length",
	"index.max_slices_per_scroll", "index.analyze.max_token_count", "index.highlight.max_analyzed_offset",
	"index.query.default_field", "index.mapping.total_fields.limit", "index.mapping.depth.limit", "index.mapping.nested_fields.limit",
	"index.mapping.nested_objects.limit", "index.mapping.field_name_length.limit", "index.mapping.coerce",
	"index.mapping.ignore_malformed", "index.sort.", "index.analysis.", "index.similarity.", "index.knn", "index.knn.",
	"index.codec", "index.codec.", "index.mapper.dynamic",
}

// silentSettings are internal to the old index and dropped without a report.
var silentSettings = []string{
	"index.uuid", "index.creation_date", "index.creation_date_string", "index.version.", "index.provided_name", "index.history.",
	"index.soft_deletes.", "index.resize.", "index.shrink.", "index.routing.", "index.allocation.", "index.verified_before_close",
	"index.replication.", "index.blocks.", "index.frozen", "index.transport_version", "index.legacy.", "index.state",
}

// sourceOnly marks an index of a source-only snapshot.
const sourceOnly = "index.source_only"

// Listed reports whether a list contains a key, or a prefix of it that ends with a dot.
func Listed(list []string, key string) bool {
	return slices.ContainsFunc(list, func(k string) bool {
		return k == key || strings.HasSuffix(k, ".") && strings.HasPrefix(key, k)
	})
}

// settings returns the settings that the new index keeps, with lists joined, and reports the others.
func (e *edit) settings(in map[string]string) map[string]any {
	kept := map[string]string{}
	for _, k := range keys(in) {
		switch {
		case e.unsupported.settings[withoutElement(k)]:
			e.note("unknown-setting", k, "dropped, the target does not know it: %q", in[k])
		case Listed(keptSettings, withoutElement(k)):
			kept[k] = in[k]
		case k == sourceOnly:
			e.note("source-only", k, "the index comes from a source-only snapshot, which keeps documents but no inverted index and no doc values; its mapping is the original one, from _meta")
		case !Listed(silentSettings, k):
			e.note("setting", k, "dropped: %q", in[k])
		}
	}
	out := lists(kept)
	if e.on("logsdb") {
		logsdb(e, in, out)
	}
	for _, r := range settingRules {
		if e.on(r.name) {
			r.apply(e, out)
		}
	}
	e.ofTarget(out)
	return out
}

// ofTarget drops settings that the target does not let clients choose.
func (e *edit) ofTarget(settings map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if !e.version.KeepsSetting(k) {
			e.note("collection-setting", k, "dropped, a collection of OpenSearch Serverless decides about it: %q", Text(settings[k]))
			delete(settings, k)
		}
	}
}

// ignoreMalformed is the setting that makes fields without a parameter of their own ignore values of the wrong type.
const ignoreMalformed = "index.mapping.ignore_malformed"

// logsdb sets ignoreMalformed for indices in logsdb mode, which implies it, unless the index
// has the setting itself. Source: FieldMapper.IGNORE_MALFORMED_SETTING of Elasticsearch 8.16 and later. Earlier versions
// rejected documents with malformed values, so the snapshot contains none.
func logsdb(e *edit, in map[string]string, out map[string]any) {
	const setting = ignoreMalformed
	if _, set := in[setting]; !set && strings.HasPrefix(in["index.mode"], "logsdb") {
		out[setting] = "true"
		e.note("logsdb", setting, "is true, as the mode %s has it", in["index.mode"])
	}
}

// takesMalformed are the types that have a parameter ignore_malformed on the target.
var takesMalformed = []string{
	"long", "integer", "short", "byte", "double", "float", "half_float", "scaled_float", "unsigned_long", "date", "date_nanos", "ip", "geo_point", "geo_shape",
}

// malformedBooleans sets ignoreMalformed for an index with boolean fields that ignore malformed values, since the
// type has no such parameter on the target (BooleanFieldMapper of OpenSearch). Fields of other types get their previous value as a
// parameter, so that the setting does not change it.
func (e *edit) malformedBooleans(settings, mapping map[string]any) {
	if !e.on("malformed-boolean") || e.version.Distribution != "opensearch" || e.unsupported.settings[ignoreMalformed] {
		return
	}
	var booleans []string
	was := Text(settings[ignoreMalformed])
	eachField(mapping, "", func(path string, f map[string]any) {
		if f["type"] == "boolean" && Text(f["ignore_malformed"]) == "true" {
			delete(f, "ignore_malformed")
			booleans = append(booleans, path)
		}
	})
	if len(booleans) == 0 || was == "true" {
		return
	}
	eachField(mapping, "", func(_ string, f map[string]any) {
		if slices.Contains(takesMalformed, Text(f["type"])) && f["ignore_malformed"] == nil {
			f["ignore_malformed"] = false
		}
	})
	settings[ignoreMalformed] = "true"
	e.note("malformed-boolean", ignoreMalformed, "is true, for malformed values of %s: they stay in the document and are not indexed; all boolean fields of the index, and fields that are added later, ignore such values on the target",
		strings.Join(booleans, ", "))
}

// eachField calls yield for all fields and subfields of a mapping.
func eachField(mapping map[string]any, prefix string, yield func(path string, f map[string]any)) {
	for _, kind := range []string{"properties", "fields"} {
		below := Part(mapping, kind)
		for _, name := range keys(below) {
			if f, ok := below[name].(map[string]any); ok {
				if f["type"] != nil {
					yield(prefix+name, f)
				}
				eachField(f, prefix+name+".", yield)
			}
		}
	}
}

// withoutElement returns the name of the list that a setting is an element of: a.b for a.b.0; other names are unchanged.
func withoutElement(key string) string {
	dot := strings.LastIndexByte(key, '.')
	if _, err := strconv.ParseUint(key[dot+1:], 10, 31); err != nil || dot < 0 {
		return key
	}
	return key[:dot]
}

// lists returns the settings with the elements a.0, a.1, … joined to a list, if none is missing.
func lists(in map[string]string) map[string]any {
	sizes := map[string]int{}
	for k := range in {
		if base := withoutElement(k); base != k {
			sizes[base]++
		}
	}
	out := make(map[string]any, len(in))
	for k, v := range in {
		base := withoutElement(k)
		i, err := strconv.Atoi(strings.TrimPrefix(k[len(base):], "."))
		if base == k || err != nil || i >= sizes[base] || !hasAll(in, base, sizes[base]) {
			out[k] = v
			continue
		}
		list, ok := out[base].([]any)
		if !ok {
			list = make([]any, sizes[base])
			out[base] = list
		}
		list[i] = v
	}
	return out
}

func hasAll(in map[string]string, base string, n int) bool {
	for i := range n {
		if _, ok := in[base+"."+strconv.Itoa(i)]; !ok {
			return false
		}
	}
	return true
}

// settingRules convert settings in place.
var settingRules = []struct {
	name  string
	apply func(*edit, map[string]any)
}{
	{"codec", codecs}, {"dynamic-setting", dynamicSetting}, {"all-field", allField}, {"legacy-similarity", similarities},
	{"default-index-analyzer", defaultIndex}, {"analysis-name", componentNames}, {"standard-filter", standardFilter},
	{"gram-limit", gramLimits}, {"knn-engine", knnSettings},
}

// foreignCodecs are codecs that only Elasticsearch has.
var foreignCodecs = []string{"legacy_default", "legacy_best_compression", "lucene_default"}

// codecs drops codecs that no OpenSearch has. Codecs of plugins (zstd) stay; a target without the plugin reports them as unsupported.
func codecs(e *edit, s map[string]any) {
	if c := Text(s["index.codec"]); slices.Contains(foreignCodecs, c) {
		e.note("codec", "index.codec", "dropped: %v", c)
		delete(s, "index.codec")
	}
	if s["index.codec"] != nil {
		return
	}
	for _, k := range keys(s) {
		if strings.HasPrefix(k, "index.codec.") {
			e.note("codec", k, "dropped %v: it is about a codec that the target does not have", s[k])
			delete(s, k)
		}
	}
}

// dynamicSetting drops index.mapper.dynamic. Before Elasticsearch 7 it stated whether documents may add mapping types.
func dynamicSetting(e *edit, s map[string]any) {
	if v, ok := s["index.mapper.dynamic"]; ok {
		delete(s, "index.mapper.dynamic")
		e.note("dynamic-setting", "index.mapper.dynamic", "dropped %v: it concerns new mapping types, which do not exist", v)
	}
}

// defaultIndex renames the default analyzer for documents from default_index to default, its name since Elasticsearch 5.
func defaultIndex(e *edit, s map[string]any) {
	const old, now = "index.analysis.analyzer.default_index.", "index.analysis.analyzer.default."
	if e.created >= 5 {
		return
	}
	for _, k := range keys(s) {
		if strings.HasPrefix(k, now) {
			return
		}
	}
	for _, k := range keys(s) {
		if option, ok := strings.CutPrefix(k, old); ok {
			s[now+option] = s[k]
			delete(s, k)
			e.note("default-index-analyzer", k, "is %s%s", now, option)
		}
	}
}

// allField drops the default field _all, which does not exist; without a default, queries search all fields.
func allField(e *edit, s map[string]any) {
	if s["index.query.default_field"] == "_all" {
		e.note("all-field", "index.query.default_field", "dropped: _all is not a field")
		delete(s, "index.query.default_field")
	}
}

// similarities drops definitions of types that no longer exist.
func similarities(e *edit, s map[string]any) {
	for _, k := range keys(s) {
		name, ok := strings.CutSuffix(strings.TrimPrefix(k, "index.similarity."), ".type")
		if !ok || !strings.HasPrefix(k, "index.similarity.") {
			continue
		}
		if t := s[k]; t == "default" || t == "classic" || name == "base" {
			e.lose("legacy-similarity", k, "dropped: %v", t)
			e.gone = append(e.gone, name)
			maps.DeleteFunc(s, func(o string, _ any) bool { return strings.HasPrefix(o, "index.similarity."+name+".") })
		}
	}
}

// newNames are the current names of analysis components with old spellings.
var newNames = map[string]string{
	"nGram": "ngram", "edgeNGram": "edge_ngram", "htmlStrip": "html_strip", "delimited_payload_filter": "delimited_payload",
	"PathHierarchy": "path_hierarchy",
}

// componentNames renames analysis components to their current names, in definitions and in uses.
func componentNames(e *edit, s map[string]any) {
	for _, k := range keys(s) {
		if !strings.HasPrefix(k, "index.analysis.") {
			continue
		}
		last := k[strings.LastIndexByte(k, '.')+1:]
		if last != "type" && last != "tokenizer" && last != "filter" && last != "char_filter" {
			continue
		}
		defined := func(name string) bool {
			_, ok := s["index.analysis."+last+"."+name+".type"]
			return ok
		}
		s[k] = each(s[k], func(name string) (string, bool) {
			to, ok := newNames[name]
			if !ok || defined(name) {
				return name, true
			}
			e.note("analysis-name", k, "%s is %s", name, to)
			return to, true
		})
	}
}

// standardFilter drops the token filter "standard", which had no effect and does not exist any more.
func standardFilter(e *edit, s map[string]any) {
	for _, k := range keys(s) {
		if !strings.HasPrefix(k, "index.analysis.analyzer.") || !strings.HasSuffix(k, ".filter") {
			continue
		}
		if _, own := s["index.analysis.filter.standard.type"]; own {
			return
		}
		s[k] = each(s[k], func(name string) (string, bool) {
			if name == "standard" {
				e.note("standard-filter", k, "dropped: it did nothing")
			}
			return name, name != "standard"
		})
		if s[k] == nil {
			delete(s, k)
		}
	}
}

// each applies f to a name, a comma-separated list of names or a list, and returns the remaining names; nil for none.
func each(v any, f func(string) (string, bool)) any {
	var in []any
	single := false
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, ",") {
			single = true
		}
		for _, p := range strings.Split(v, ",") {
			in = append(in, strings.TrimSpace(p))
		}
	case []any:
		in = v
	default:
		return v
	}
	var out []any
	for _, x := range in {
		name, ok := x.(string)
		keep := true
		if ok {
			name, keep = f(name)
			x = name
		}
		if keep {
			out = append(out, x)
		}
	}
	switch {
	case len(out) == 0:
		return nil
	case single:
		return out[0]
	}
	return out
}

// gramLimits raises the limits of ngram and shingle sizes in newer versions to the sizes that the index uses.
func gramLimits(e *edit, s map[string]any) {
	limits := []struct {
		types                   []string
		low, high, setting      string
		lowDefault, highDefault int
		allowed                 int
	}{
		{[]string{"ngram"}, ".min_gram", ".max_gram", "index.max_ngram_diff", 1, 2, 1},
		{[]string{"shingle"}, ".min_shingle_size", ".max_shingle_size", "index.max_shingle_diff", 2, 2, 3},
	}
	for _, l := range limits {
		most := l.allowed
		if n, ok := number(s[l.setting]); ok {
			most = n
		}
		before := most
		for k, v := range s {
			name, ok := strings.CutSuffix(k, ".type")
			if t, isText := v.(string); !ok || !isText || !slices.Contains(l.types, t) {
				continue
			}
			low, ok := number(s[name+l.low])
			if !ok {
				low = l.lowDefault
			}
			high, ok := number(s[name+l.high])
			if !ok {
				high = l.highDefault
			}
			most = max(most, high-low)
		}
		if most > before {
			e.note("gram-limit", l.setting, "raised to %d", most)
			s[l.setting] = strconv.Itoa(most)
		}
	}
}

func number(v any) (int, bool) {
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
