package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// columnarIndex is an index of a columnar mode.
type columnarIndex struct {
	name, settings, mapping string
	docs                    []string
	routed                  bool // documents have a routing
}

// columnarMapping returns the mapping of the samples, except for some names. The columnar modes refuse stored fields and fields
// without doc values.
func columnarMapping(but ...string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		s := samples[name]
		if name == "text_store" || slices.Contains(but, name) {
			continue
		}
		params := s.params
		if s.malformed != "" && !strings.Contains(params, `"type":"keyword"`) {
			params += `,"ignore_malformed":true`
		}
		all = append(all, fmt.Sprintf(`%q:{%s}`, name, params))
	}
	return strings.Join(all, ",")
}

// columnarMembers returns members without the fields that the columnar modes refuse.
func columnarMembers() []string {
	var all []string
	for i, m := range members() {
		if i%3 != 0 { // without doc values, or stored
			continue
		}
		all = append(all, m)
	}
	return all
}

func columnarSources(more string) []string {
	docs := []string{`{"@timestamp":1` + more + `}`}
	for i, m := range columnarMembers() {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d%s,%s}`, 1700000000000+i, more, m))
	}
	return docs
}

func columnarNestedTypes() []string {
	all := columnarMembers()
	var docs []string
	for i, m := range all {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d,"n":{%s}}`, 1700000000000+i, m),
			fmt.Sprintf(`{"@timestamp":%d,"top":"t","n":[{%s},{"@id":%d},{%s}]}`, 1700000001000+i, all[(i+3)%len(all)], i, m))
	}
	return docs
}

const columnarObjects = `"plain":{"properties":{"k":{"type":"keyword"},"deep":{"properties":{"n":{"type":"long"},"t":{"type":"text"}}}}},
"closed":{"type":"object","dynamic":"false","properties":{"k":{"type":"keyword"}}},
"off":{"type":"object","enabled":false},"other_name":{"type":"alias","path":"plain.k"},
"attributes":{"type":"passthrough","priority":1,"properties":{"k":{"type":"keyword"},"n":{"type":"long"}}},
"multi":{"type":"keyword","fields":{"n":{"type":"long","ignore_malformed":true},"t":{"type":"text"}}}`

// columnarParams are the parameters of doc values in these modes.
const columnarParams = `"high":{"type":"keyword","doc_values":{"cardinality":"high"}},"low":{"type":"keyword","doc_values":{"cardinality":"low"}},
"high_ip":{"type":"ip","doc_values":{"cardinality":"high"}},"low_ip":{"type":"ip","doc_values":{"cardinality":"low"}},
"one":{"type":"keyword","doc_values":{"multi_value":false}},"one_long":{"type":"long","doc_values":{"multi_value":false}},
"one_text":{"type":"text","doc_values":{"multi_value":false}},"one_date":{"type":"date","doc_values":{"multi_value":false}},
"null_keyword":{"type":"keyword","null_value":"NULL"},"null_long":{"type":"long","null_value":-7},
"unindexed":{"type":"text","index":false},"indexed":{"type":"keyword","index":true},"indexed_long":{"type":"long","index":true},
"short":{"type":"keyword","ignore_above":3},"short_high":{"type":"keyword","ignore_above":3,"doc_values":{"cardinality":"high"}},
"lower":{"type":"keyword","normalizer":"lowercase"}`

var columnarParamSources = []string{
	`{"high":"a","low":"a","high_ip":"10.0.0.1","low_ip":"10.0.0.1","one":"x","one_long":1,"one_text":"text 😀","one_date":5}`,
	`{"high":["z","a","z",null],"low":["z","a","z",null],"high_ip":["10.0.0.2","::1","10.0.0.2"],"low_ip":["10.0.0.2","::1","10.0.0.2"]}`,
	`{"high":[null],"low":[null],"high_ip":[null],"low_ip":[null]}`,
	`{"high":[],"low":[],"high_ip":[],"low_ip":[]}`,
	`{"high":null,"low":null,"high_ip":null,"low_ip":null}`,
	`{"high":["a"],"low":["a"],"high_ip":["::1"],"low_ip":["::1"]}`,
	`{"high":"","low":"","unindexed":["","b"]}`,
	`{"null_keyword":null,"null_long":null}`,
	`{"null_keyword":["b",null,"a"],"null_long":[3,null,1]}`,
	`{"unindexed":["z","a","z"],"indexed":["z","a"],"indexed_long":[3,1,3]}`,
	`{"short":"abcd","short_high":"abcd"}`,
	`{"short":["abcd","b","a","efgh","b"],"short_high":["abcd","b","a","efgh","b"]}`,
	`{"lower":"ABC"}`,
	`{"lower":["Z","a","Z"]}`,
	`{}`,
}

// columnarIndices returns all indices of the recipe.
func columnarIndices() []columnarIndex {
	const codec, stamp = `,"codec":"legacy_default"`, `"@timestamp":{"type":"date"},`
	columnar, logs, stored := `"mode":"columnar"`+codec, `"mode":"logsdb_columnar"`+codec, `"mode":"columnar","mapping.source.mode":"columnar_stored"`+codec
	properties := func(s string) string { return `{"dynamic":"false","properties":{` + s + `}}` }
	nested := `"top":{"type":"keyword"},"n":{"type":"nested","dynamic":"false","properties":{"@id":{"type":"long"},` + columnarMapping() + `}}`
	two := `"plain":{"type":"keyword"},"m":{"type":"nested","properties":{"w":{"type":"long"},"k":{"type":"keyword"}}},"n":{"type":"nested","properties":{"k":{"type":"keyword"},"v":{"type":"long"},"t":{"type":"text"},"o":{"properties":{"x":{"type":"long"}}},"f":{"type":"flattened"}}}`
	flat := `"f":{"type":"flattened"},"short":{"type":"flattened","ignore_above":5},"null_value":{"type":"flattened","null_value":"NULL"}`
	twoSources := append(slices.Clone(nestedSources), `{"plain":"both","m":[{"w":2},{"w":1}],"n":[{"k":"b"},{"k":"a"}],"@timestamp":1700000000010}`, `{"m":{"k":["z","a"]},"n":{"v":3},"@timestamp":1700000000011}`)
	dynamic := []string{
		`{"a":{"b":{"c":[3,1,3],"d":"text"}},"a.b.e":true,"f":1.5,"@timestamp":"2023-11-14T22:13:20Z"}`, `{"a":[{"b":{"c":9}},{"b":{"d":["y","x"]}}],"n":null,"list":[],"o":{}}`,
		`{"s":"2023-11-14","mixed":["1",2],"deep":[[1,2],[3]],"u":"ü😀"}`,
	}
	return []columnarIndex{
		{"types", columnar, properties(stamp + columnarMapping()), columnarSources(""), false},
		{"types-logs", logs, properties(stamp + columnarMapping()), columnarSources(""), false},
		{"types-stored", stored, properties(stamp + columnarMapping("binary")), columnarSources(""), false},
		{"objects", columnar, properties(stamp + columnarObjects), objectSources, false},
		{"objects-logs", logs, properties(stamp + columnarObjects), objectSources, true},
		{"params", columnar, properties(columnarParams), columnarParamSources, false},
		{"flattened", columnar, properties(stamp + flat), flattenedSources, false},
		{"texts", columnar, properties(stamp + `"t":{"type":"text"},"raw":{"type":"text","fields":{"raw":{"type":"keyword"}}},"lower":{"type":"text","fields":{"raw":{"type":"keyword","normalizer":"lowercase"}}}`),
			[]string{`{"t":["z","a 😀","z"],"raw":["z","a","z"],"lower":["Z","a"]}`, `{"t":"one","raw":"one","lower":"One"}`, `{"t":[null,"z","` + strings.Repeat("long ", 8000) + `"],"raw":[null]}`, `{"t":[],"raw":null}`}, true},
		{"vectors", columnar, properties(stamp + vectorMapping), vectorSources(false), false},
		{"nested-types", columnar, properties(stamp + nested), columnarNestedTypes(), false},
		{"nested", columnar, properties(stamp + two), twoSources, true},
		{"nested-logs", logs, properties(stamp + two), twoSources, false},
		{"nested-stored", stored, properties(stamp + two), twoSources, true},
		{"dynamic", columnar, `{}`, dynamic, true},
	}
}

// makeColumnar makes the indices of the columnar modes.
func makeColumnar(ctx context.Context, l *lab) error {
	if err := l.bootWithZstd(ctx, "9.5.3"); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	for _, x := range columnarIndices() {
		body := fmt.Sprintf(`{"settings":{"index":{"number_of_shards":1,"number_of_replicas":0,%s}},"mappings":%s}`, x.settings, x.mapping)
		if err := l.put(ctx, http.MethodPut, "/"+x.name, body); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		for i, source := range x.docs {
			path := fmt.Sprintf("/%s/_doc/%d", x.name, i)
			if x.routed {
				path += fmt.Sprintf("?routing=r%d", i%3)
			}
			if err := l.put(ctx, http.MethodPut, path, source); err != nil {
				return fmt.Errorf("%s/%d: %w", x.name, i, err)
			}
		}
	}
	var names []string
	for _, x := range columnarIndices() {
		names = append(names, x.name)
	}
	if err := l.ask(ctx, names...); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}
