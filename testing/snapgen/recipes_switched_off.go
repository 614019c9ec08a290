package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// switchedOffRecipes make indices whose mappings disable or filter _source. The sent documents are kept, too, since the
// clusters do not return them.
func switchedOffRecipes() []recipe {
	var all []recipe
	for _, version := range []string{"2.4.6", "6.8.23", "7.10.2"} {
		all = append(all, recipe{
			name: version + "-switched-off", holds: "sources that are switched off or filtered: every field type of the server; the truth is what was sent",
			onDemand: true, // kept with the package that reads it: -out rfs/source/rebuild/testdata
			make:     func(ctx context.Context, l *lab) error { return makeSwitchedOff(ctx, l, version) },
		})
	}
	return append(all, recipe{
		name: "os3.8.0-switched-off", holds: "sources that OpenSearch switches off or filters, without any kept for recoveries: every field type of the server",
		make: func(ctx context.Context, l *lab) error { return makeSwitchedOff(ctx, l, "os3.8.0") },
	})
}

// offSample is a field type with values, neither sorted nor distinct.
type offSample struct {
	name, params string
	values       []string // JSON
	column       bool     // it can have doc values
	store        bool     // it can be stored
}

// offSamples returns the field types of a version.
func offSamples(version string) []offSample {
	words := []string{`"ü\u0001\"q\\/"`, `"b😀"`, `"a"`, `"b😀"`, `7`, `true`}
	keyword, text := `"type":"keyword"`, `"type":"text"`
	if strings.HasPrefix(version, "2.") {
		keyword, text = `"type":"string","index":"not_analyzed"`, `"type":"string"`
	}
	all := []offSample{
		{"keyword", keyword, words, true, true},
		{"keyword_null", keyword + `,"null_value":"N"`, []string{`"Zeta"`, `null`, `"ALPHA"`}, true, true},
		{"keyword_above", keyword + `,"ignore_above":10`, []string{`"short"`, `"longer than ten"`, `"above"`}, true, true},
		{"long", `"type":"long"`, []string{`3`, `-9223372036854775808`, `9223372036854775807`, `3`, `"17"`}, true, true},
		{"integer", `"type":"integer"`, []string{`3`, `-2147483648`, `0`, `3`}, true, true},
		{"short", `"type":"short"`, []string{`3`, `-32768`, `1`}, true, true},
		{"byte", `"type":"byte"`, []string{`3`, `-128`, `127`}, true, true},
		{"double", `"type":"double"`, []string{`0.1`, `-1e300`, `1e-7`, `123456789.125`, `12345678`, `0.001`}, true, true},
		{"float", `"type":"float"`, []string{`0.1`, `3.4e38`, `1e-10`, `16777216`, `0.001`, `-2`}, true, true},
		{"boolean", `"type":"boolean"`, []string{`true`, `false`, `"true"`}, true, true},
		{"date", `"type":"date"`, []string{`"2023-11-14T22:13:20.123Z"`, `1700000000000`, `"2023-11-14"`, `"1969-01-01T00:00:00+02:00"`}, true, true},
		{"date_mixed", `"type":"date","format":"yyyy-MM-dd||yyyy/MM/dd HH:mm:ss||epoch_millis"`, []string{`"2023-11-14"`, `"2023/11/14 22:13:20"`, `1700000000001`}, true, true},
		{"date_day", `"type":"date","format":"yyyy-MM-dd"`, []string{`"2023-11-14"`, `"1969-01-01"`}, true, true},
		{"ip", `"type":"ip"`, []string{`"192.168.0.1"`, `"10.0.0.1"`, `"192.168.0.1"`}, true, true},
		{"geo_point", `"type":"geo_point"`, []string{`{"lat":41.12,"lon":-71.34}`, `"40.5,-70.25"`, `{"lat":0.0,"lon":0.5}`}, true, true},
		{"binary", `"type":"binary"`, []string{`"aGVsbG8="`, `"AAEC"`, `"aGVsbG8="`}, true, true},
		{"text", text, []string{`"The quick 😀"`, `"brown\tfox"`, `"a"`, `"The quick 😀"`, `5`}, false, true},
		{"text_raw", text + `,"fields":{"raw":{` + keyword + `}}`, []string{`"zeta x"`, `"alpha"`, `"zeta x"`}, false, false},
		{"text_above", text + `,"fields":{"raw":{` + keyword + `,"ignore_above":8}}`, []string{`"zeta"`, `"longer than eight"`, `"alpha"`}, false, false},
		{"keyword_text", keyword + `,"doc_values":false,"fields":{"t":{` + text + `,"store":true}}`, []string{`"zeta"`, `"alpha"`, `"zeta"`}, false, false},
	}
	if strings.HasPrefix(version, "2.") {
		return all
	}
	all = append(all,
		offSample{"half_float", `"type":"half_float"`, []string{`0.1`, `65504`, `0.00006`, `-2`}, true, true},
		offSample{"ip6", `"type":"ip"`, []string{`"::1"`, `"2001:db8::ff00:42:8329"`, `"10.0.0.1"`}, true, true},
		offSample{"integer_range", `"type":"integer_range"`, []string{`{"gte":1,"lt":10}`, `{"gt":-5}`, `{"lte":2147483646}`, `{"gte":-70000,"lte":300}`}, true, false},
		offSample{"float_range", `"type":"float_range"`, []string{`{"gte":0.5,"lte":1.5}`, `{"gte":-3.25,"lte":16777216}`}, true, false},
		offSample{"long_range", `"type":"long_range"`, []string{`{"gte":1,"lt":10}`, `{"gt":-5}`}, true, false},
		offSample{"double_range", `"type":"double_range"`, []string{`{"gte":0.5,"lte":1.5}`, `{"gte":-1e300}`}, true, false},
		offSample{"date_range", `"type":"date_range"`, []string{`{"gte":"2023-11-14","lte":"2023-11-15T00:00:00Z"}`}, true, false},
		offSample{"ip_range", `"type":"ip_range"`, []string{`{"gte":"::1","lte":"::ff"}`, `"10.0.0.0/8"`}, true, false},
	)
	if !strings.HasPrefix(version, "6.") { // whose node has no normalizers
		all = append(all, offSample{"normalized", keyword + `,"normalizer":"lower"`, []string{`"Zeta"`, `"ALPHA"`}, true, true},
			offSample{"date_nanos", `"type":"date_nanos"`, []string{`"2023-11-14T22:13:20.123456789Z"`, `"2023-11-14T22:13:20.12Z"`}, true, true})
	}
	if strings.HasPrefix(version, "os") {
		all = append(all,
			offSample{"unsigned_long", `"type":"unsigned_long"`, []string{`1`, `18446744073709551615`, `0`}, true, true},
			offSample{"scaled_float", `"type":"scaled_float","scaling_factor":100`, []string{`0.29`, `-3.14159`, `12345678.9`}, true, true},
			offSample{"wildcard", `"type":"wildcard","doc_values":true`, []string{`"zeta"`, `"alpha"`, `"ü😀"`}, false, false},
			offSample{"match_only_text", `"type":"match_only_text"`, []string{`"The quick"`, `"fox"`}, false, false},
			offSample{"flat_object", `"type":"flat_object"`, []string{`{"b":"x","a":{"d":"y"}}`}, false, false},
			offSample{"token_count", `"type":"token_count","analyzer":"standard"`, []string{`"one two"`}, false, false},
			offSample{"search_as_you_type", `"type":"search_as_you_type"`, []string{`"quick fox"`}, false, false},
		)
	}
	return all
}

// variants returns the names and parameters of a sample: by default, only stored, and with neither.
func (s offSample) variants() map[string]string {
	all := map[string]string{}
	params := s.params
	if s.name == "binary" {
		params += `,"doc_values":true`
	}
	all[s.name] = params
	switch {
	case s.column && s.store:
		all[s.name+"_stored"] = s.params + `,"store":true,"doc_values":false`
	case s.store:
		all[s.name+"_stored"] = s.params + `,"store":true`
	}
	if s.column && s.name != "geo_point" {
		all[s.name+"_neither"] = s.params + `,"doc_values":false`
	}
	return all
}

// offTypes returns the mapping of all samples, and documents with one form of each.
func offTypes(version string) (properties string, docs []string) {
	var fields []string
	forms := []func(s offSample) string{
		func(s offSample) string { return s.values[0] },
		func(s offSample) string { return "[" + strings.Join(s.values, ",") + "]" },
		func(s offSample) string { return s.values[len(s.values)-1] },
		func(s offSample) string { return "[null," + s.values[0] + "]" },
		func(offSample) string { return "[]" },
	}
	for _, s := range offSamples(version) {
		for name, params := range s.variants() {
			fields = append(fields, fmt.Sprintf(`%q:{%s}`, name, params))
		}
	}
	for _, form := range forms {
		var members []string
		for _, s := range offSamples(version) {
			value := form(s)
			if s.name == "geo_point" && strings.HasPrefix(value, "[null") {
				value = s.values[0]
			}
			for name := range s.variants() {
				members = append(members, fmt.Sprintf(`%q:%s`, name, value))
			}
		}
		docs = append(docs, "{"+strings.Join(members, ",")+"}")
	}
	return strings.Join(fields, ","), append(docs, `{}`)
}

// offIndex is an index with documents.
type offIndex struct {
	name, source, dynamic, properties string
	docs                              []string
}

func offIndices(version string) []offIndex {
	off, excludes := `{"enabled":false}`, `{"excludes":["body","meta.secret","list.hidden","gone.*","lost"]}`
	if strings.HasPrefix(version, "os") { // otherwise a copy is kept for recoveries until a merge
		off = `{"enabled":false,"recovery_source_enabled":false}`
		excludes = strings.TrimSuffix(excludes, "}") + `,"recovery_source_enabled":false}`
	}
	keyword, text := `"type":"keyword"`, `"type":"text"`
	if strings.HasPrefix(version, "2.") {
		keyword, text = `"type":"string","index":"not_analyzed"`, `"type":"string"`
	}
	types, docs := offTypes(version)
	one, dots := `{"plain":{"k":"x"},"off":{"a":1},"unmapped":5}`, []string(nil)
	if !strings.HasPrefix(version, "2.") { // which has no dots in names
		one, dots = `{"plain.k":"x","off":{"a":1},"unmapped":5}`, []string{`{"meta.secret":"dots","title":"five"}`}
	}
	objects := `"plain":{"properties":{"k":{` + keyword + `},"deep":{"properties":{"n":{"type":"long"},"t":{` + text + `}}}}},` +
		`"off":{"type":"object","enabled":false},` +
		`"from":{` + keyword + `,"copy_to":"to"},"to":{` + keyword + `},` +
		`"hidden":{` + text + `,"copy_to":"kept"},"kept":{` + text + `,"store":true}`
	nested := `"n":{"type":"nested","properties":{"k":{` + keyword + `},"v":{"type":"long"}}},"top":{` + keyword + `}`
	filtered := `"title":{` + keyword + `},"body":{` + text + `,"store":true},"lost":{` + text + `},` +
		`"meta":{"properties":{"open":{` + keyword + `},"secret":{` + keyword + `}}},` +
		`"list":{"properties":{"k":{` + keyword + `},"hidden":{"type":"long"}}},` +
		`"gone":{"properties":{"a":{"type":"long"},"b":{"properties":{"c":{` + keyword + `}}}}}`
	return []offIndex{
		{"types", off, "strict", types, docs},
		{"objects", off, "false", objects, []string{
			`{"plain":{"k":["b","a"],"deep":{"n":[2,1,2],"t":"gone"}}}`, `{"plain":[{"k":"z","deep":{"n":2}},{"k":"a"}]}`,
			one, `{"from":["d","c"]}`, `{"hidden":"some words"}`, `{"from":"x","hidden":"others","plain":{"deep":{"n":7}}}`,
		}},
		{"nested", off, "strict", nested, []string{
			`{"n":[{"k":"b","v":2},{"k":"a","v":[3,1]}],"top":"x"}`, `{"n":{"k":"c","v":5}}`, `{"top":"y"}`, `{"n":[{"v":1},{"k":"z"},{"v":2}],"top":["q","p"]}`,
		}},
		{"filtered", excludes, "strict", filtered, append([]string{
			`{"title":"one","body":"The text","meta":{"open":"o","secret":"s"},"gone":{"a":[2,1],"b":{"c":"deep"}},"lost":"words"}`,
			`{"title":"two","meta":{"secret":"s2"},"list":{"k":"x","hidden":7}}`,
			`{"title":"three","list":[{"k":"x","hidden":7},{"k":"y"}]}`,
			`{"title":"four"}`, `{"body":["a","b"]}`,
		}, dots...)},
	}
}

// makeSwitchedOff creates the indices of one version. Merges remove the sources that the cluster keeps for recoveries.
func makeSwitchedOff(ctx context.Context, l *lab, version string) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	settings := `"number_of_shards":1,"number_of_replicas":0`
	if version == "7.10.2" {
		settings += `,"soft_deletes.enabled":false`
	}
	if !strings.HasPrefix(version, "2.") && !strings.HasPrefix(version, "6.") {
		settings += `,"analysis":{"normalizer":{"lower":{"type":"custom","filter":["lowercase"]}}}`
	}
	var sent []document
	for _, x := range offIndices(version) {
		mapping := fmt.Sprintf(`{"_source":%s,"dynamic":%q,"properties":{%s}}`, x.source, x.dynamic, x.properties)
		if l.typed() {
			mapping = `{"` + typeName + `":` + mapping + `}`
		}
		if err := l.put(ctx, http.MethodPut, "/"+x.name, fmt.Sprintf(`{"settings":{%s},"mappings":%s}`, settings, mapping)); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		for i, source := range x.docs {
			id := fmt.Sprint(i)
			var b body
			if err := l.load(ctx, x.name, b.index(id, source)); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			sent = append(sent, document{Index: x.name, ID: id, Source: json.RawMessage(source)})
		}
	}
	if err := l.unrecoverable(ctx); err != nil {
		return err
	}
	if strings.HasPrefix(version, "os") { // of the fixtures, which hold what the cluster answers
		l.sent = sent
		return l.take(ctx, "snap1", "")
	}
	l.truths["snap1"] = sent
	return l.snapshot(ctx, "snap1", "", "SUCCESS", false)
}

// unrecoverable merges all segments of each index into one, which removes the sources kept for recoveries.
func (l *lab) unrecoverable(ctx context.Context) error {
	if err := l.put(ctx, http.MethodPost, "/_flush?force=true", nil); err != nil {
		return err
	}
	if err := l.put(ctx, http.MethodPost, "/_forcemerge?max_num_segments=1", nil); err != nil {
		return err
	}
	return l.put(ctx, http.MethodPost, "/_flush?force=true", nil)
}
