package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// rebuildRecipes make indices without stored sources: every type of the node with doc values, stored and with neither, each
// with one value, several, none and ignored values. The truth is the source that the node rebuilds.
func rebuildRecipes() []recipe {
	var all []recipe
	for _, version := range []string{"8.19.21", "9.5.3"} {
		all = append(all, recipe{
			name: version + "-rebuild", holds: "synthetic sources: standard, logsdb and time series, every field type of the server",
			onDemand: true, // kept with the package that reads it: -out rfs/source/rebuild/testdata
			make:     func(ctx context.Context, l *lab) error { return makeSynthetic(ctx, l, version) },
		})
	}
	return append(all, recipe{
		name: "9.5.3-columnar", holds: "columnar modes: every field type, arrays, nested objects, routings",
		onDemand: true, // likewise
		make:     makeColumnar,
	}, recipe{
		name: "os3.8.0-derived", holds: "derived sources: every field type that OpenSearch derives",
		make: makeDerived,
	})
}

// sample is a field type with values in all forms of sources.
type sample struct {
	params    string   // of the mapping, without the braces
	values    []string // JSON, neither sorted nor distinct
	malformed string   // a value that the mapping ignores; "": none
	bare      bool     // neither doc values nor store can be set
}

var samples = map[string]sample{
	"keyword":       {params: `"type":"keyword","ignore_above":20`, values: []string{`"ü\u0001\"q\\/"`, `"b😀"`, `"a"`, `"b😀"`, `7`, `true`}, malformed: `"longer than twenty characters"`},
	"long":          {params: `"type":"long"`, values: []string{`3`, `-9223372036854775808`, `9223372036854775807`, `3`, `"17"`, `2.7`}, malformed: `"no number"`},
	"integer":       {params: `"type":"integer"`, values: []string{`3`, `-2147483648`, `0`, `3`}, malformed: `99999999999`},
	"short":         {params: `"type":"short"`, values: []string{`3`, `-32768`, `1`}, malformed: `"x"`},
	"byte":          {params: `"type":"byte"`, values: []string{`3`, `-128`, `127`}, malformed: `300`},
	"double":        {params: `"type":"double"`, values: []string{`0.1`, `-1e300`, `1e-7`, `123456789.125`, `12345678`, `0.001`, `-0.0`, `1e7`}, malformed: `"x"`},
	"float":         {params: `"type":"float"`, values: []string{`0.1`, `3.4e38`, `1e-10`, `16777216`, `0.001`, `-2`}, malformed: `"x"`},
	"half_float":    {params: `"type":"half_float"`, values: []string{`0.1`, `65504`, `0.00006`, `-2`}, malformed: `"x"`},
	"date":          {params: `"type":"date"`, values: []string{`"2023-11-14T22:13:20.123Z"`, `1700000000000`, `"2023-11-14"`, `-1`, `"1969-01-01T00:00:00+02:00"`}, malformed: `"yesterday"`},
	"date_seconds":  {params: `"type":"date","format":"epoch_second"`, values: []string{`1700000000`, `1700000000.5`, `12`}, malformed: `"x"`},
	"date_millis":   {params: `"type":"date","format":"epoch_millis"`, values: []string{`1700000000000`, `5`}, malformed: `"x"`},
	"date_custom":   {params: `"type":"date","format":"yyyy/MM/dd HH:mm:ss||epoch_millis"`, values: []string{`"2023/11/14 22:13:20"`, `1700000000000`}, malformed: `"x"`},
	"date_nanos":    {params: `"type":"date_nanos"`, values: []string{`"2023-11-14T22:13:20.123456789Z"`, `"2023-11-14T22:13:20.12Z"`, `1700000000000`}, malformed: `"yesterday"`},
	"boolean":       {params: `"type":"boolean"`, values: []string{`true`, `false`, `"true"`, `"", "false"`}, malformed: `"perhaps"`},
	"ip":            {params: `"type":"ip"`, values: []string{`"192.168.0.1"`, `"::1"`, `"2001:db8::ff00:42:8329"`, `"10.0.0.1"`, `"::ffff:1.2.3.4"`}, malformed: `"1.2.3"`},
	"text":          {params: `"type":"text"`, values: []string{`"The quick 😀"`, `"brown\tfox"`, `"a"`, `"The quick 😀"`, `5`}, bare: true},
	"text_keyword":  {params: `"type":"text","fields":{"raw":{"type":"keyword","ignore_above":8}}`, values: []string{`"zeta"`, `"alpha"`, `"longer than eight"`, `"zeta"`}, bare: true},
	"text_store":    {params: `"type":"text","store":true,"fields":{"raw":{"type":"keyword"}}`, values: []string{`"zeta"`, `"alpha"`, `"zeta"`}, bare: true},
	"binary":        {params: `"type":"binary"`, values: []string{`"aGVsbG8="`, `"AAEC"`, `"aGVsbG8="`}},
	"normalized":    {params: `"type":"keyword","normalizer":"lowercase"`, values: []string{`"Zeta"`, `"ALPHA"`}},
	"geo_point":     {params: `"type":"geo_point"`, values: []string{`{"lat":41.12,"lon":-71.34}`, `"40.5,-70.25"`, `[ -73.5, 12.25 ]`}, malformed: `"nowhere"`},
	"flattened":     {params: `"type":"flattened"`, values: []string{`{"b":"x","a":{"d":[2,1],"c":"y"}}`, `{"z.q":1}`}, bare: true},
	"integer_range": {params: `"type":"integer_range"`, values: []string{`{"gte":1,"lt":10}`, `{"gt":-5}`, `{"lte":2147483646}`, `{"gte":-70000,"lte":300}`}},
	"float_range":   {params: `"type":"float_range"`, values: []string{`{"gte":0.5,"lte":1.5}`, `{"gt":-1e-10}`, `{"gte":-3.25,"lt":16777216}`}},
	"long_range":    {params: `"type":"long_range"`, values: []string{`{"gte":1,"lt":10}`, `{"gt":-5}`}},
	"double_range":  {params: `"type":"double_range"`, values: []string{`{"gte":0.5,"lte":1.5}`}},
	"date_range":    {params: `"type":"date_range"`, values: []string{`{"gte":"2023-11-14","lt":"2023-11-15T00:00:00Z"}`}},
	"ip_range":      {params: `"type":"ip_range"`, values: []string{`"10.0.0.0/8"`, `{"gte":"::1","lte":"::ff"}`}},
}

// fields returns the mapping of all samples: each with doc values, stored, and with neither.
func fields() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		s := samples[name]
		params := s.params
		if s.malformed != "" && !strings.Contains(s.params, `"type":"keyword"`) {
			params += `,"ignore_malformed":true`
		}
		all = append(all, fmt.Sprintf(`"%s":{%s}`, name, params))
		if !s.bare {
			all = append(all, fmt.Sprintf(`"%s_neither":{%s,"doc_values":false}`, name, params))
		}
		if !s.bare && !strings.Contains(name, "range") && name != "geo_point" {
			all = append(all, fmt.Sprintf(`"%s_stored":{%s,"store":true,"doc_values":false}`, name, params))
		}
	}
	return strings.Join(all, ",")
}

// members returns the members of documents, each with one form of all fields: a value, several, with nulls, ignored, none.
func members() []string {
	forms := []func(s sample) string{
		func(s sample) string { return s.values[0] },
		func(s sample) string { return "[" + strings.Join(s.values, ",") + "]" },
		func(s sample) string { return "[" + s.values[len(s.values)-1] + "]" },
		func(sample) string { return "null" },
		func(sample) string { return "[]" },
		func(s sample) string { return "[null," + s.values[0] + ",null]" },
		func(s sample) string { return orNull(s.malformed) },
		func(s sample) string {
			return "[" + s.values[len(s.values)-1] + "," + orNull(s.malformed) + "," + s.values[0] + "]"
		},
	}
	var all []string
	for _, form := range forms {
		for variant := range 3 {
			var fields []string
			for _, name := range slices.Sorted(maps.Keys(samples)) {
				s := samples[name]
				suffix := []string{"", "_neither", "_stored"}[variant]
				if variant > 0 && s.bare || variant == 2 && (strings.Contains(name, "range") || name == "geo_point") {
					continue
				}
				fields = append(fields, fmt.Sprintf(`"%s%s":%s`, name, suffix, form(s)))
			}
			all = append(all, strings.Join(fields, ","))
		}
	}
	return all
}

// sources returns documents with the members and a timestamp of their own. more precedes the members.
func sources(more string) []string {
	docs := []string{`{"@timestamp":1` + more + `}`}
	for i, m := range members() {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d%s,%s}`, 1700000000000+i, more, m))
	}
	return docs
}

// nestedTypes returns documents with the members in nested objects: one object, and several of different forms.
func nestedTypes() []string {
	all := members()
	var docs []string
	for i, m := range all {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d,"n":{%s}}`, 1700000000000+i, m),
			fmt.Sprintf(`{"@timestamp":%d,"top":"t","n":[{%s},{"@id":%d},{%s}]}`, 1700000001000+i, all[(i+3)%len(all)], i, m))
	}
	return docs
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

// objectMapping is a mapping of objects: plain, nested, dotted, disabled and more.
const objectMapping = `"plain":{"properties":{"k":{"type":"keyword"},"deep":{"properties":{"n":{"type":"long"},"t":{"type":"text"}}}}},
"flat":{"subobjects":false,"properties":{"a.b":{"type":"long"},"a":{"type":"keyword"}}},
"off":{"type":"object","enabled":false},
"closed":{"type":"object","dynamic":"false","properties":{"k":{"type":"keyword"}}},
"copied":{"type":"keyword"},"from":{"type":"keyword","copy_to":["copied","only_copied"]},"only_copied":{"type":"text"},
"other_name":{"type":"alias","path":"plain.k"},
"kept":{"type":"keyword","synthetic_source_keep":"all"},"arrays":{"type":"long","synthetic_source_keep":"arrays"},
"none":{"type":"long","synthetic_source_keep":"none"},
"kept_object":{"synthetic_source_keep":"all","properties":{"k":{"type":"keyword"},"n":{"type":"long"}}},
"array_object":{"synthetic_source_keep":"arrays","properties":{"k":{"type":"keyword"}}},
"multi":{"type":"keyword","fields":{"n":{"type":"long","ignore_malformed":true},"t":{"type":"text"}}}`

var objectSources = []string{
	`{"plain":{"k":["b","a"],"deep":{"t":"text","n":[2,1,2]}},"@timestamp":1700000000001}`,
	`{"plain":[{"k":"z","deep":{"n":2}},{"k":"a","deep":[{"n":1},{"n":3}]}],"@timestamp":1700000000002}`,
	`{"plain":{"k":"x","deep.n":7},"plain.deep.t":"dots","@timestamp":1700000000003}`,
	`{"flat":{"a.b":5,"a":"s"},"flat.a.b":6,"@timestamp":1700000000004}`,
	`{"off":{"z":1,"a":[{"q":null},"é😀"]},"@timestamp":1700000000005}`,
	`{"closed":{"k":["z","a"],"unmapped":{"x":[1.50,2e3,12345678901234567890]},"a":true},"@timestamp":1700000000006}`,
	`{"copied":["own","another"],"from":"c","@timestamp":1700000000007}`,
	`{"from":["d","c"],"@timestamp":1700000000008}`,
	`{"kept":["b","a","b"],"arrays":[3,1,3],"none":[3,1,3],"@timestamp":1700000000009}`,
	`{"kept":"x","arrays":3,"none":3,"@timestamp":1700000000010}`,
	`{"kept_object":{"n":[3,1],"k":"v"},"array_object":{"k":["z","a"]},"@timestamp":1700000000011}`,
	`{"kept_object":[{"n":3},{"k":"v"}],"array_object":[{"k":"z"},{"k":"a"}],"@timestamp":1700000000012}`,
	`{"plain":{},"off":{},"kept_object":{},"array_object":[],"@timestamp":1700000000013}`,
	`{"plain":null,"kept":null,"arrays":null,"none":[null],"@timestamp":1700000000014}`,
	`{"multi":["12","x"],"@timestamp":1700000000015}`,
	`{"multi":"12","plain":[[{"k":"a"}],{"k":"b"}],"@timestamp":1700000000016}`,
}

// synthesized is an index without stored sources.
type synthesized struct {
	name, settings, properties string
	docs                       []string
}

// makeSynthetic creates the indices of one version of Elasticsearch.
func makeSynthetic(ctx context.Context, l *lab, version string) error {
	if err := l.bootWithZstd(ctx, version); err != nil {
		return err
	}
	return l.synthetic(ctx)
}

// lacksZstd reports whether the node of a version has no zstd, its best_compression: 9.5.3 is assembled without libzstd.
// Its shards would fail when documents are written, and answer 503 a minute later.
func lacksZstd(version string) bool {
	return version == "9.5.3" && !strings.Contains(os.Getenv("JAVA_TOOL_OPTIONS"), "es.nativelibs.path")
}

// bootWithZstd starts a node that writes logsdb or columnar indices.
func (l *lab) bootWithZstd(ctx context.Context, version string) error {
	if lacksZstd(version) {
		return errors.New("9.5.3 needs libzstd: set JAVA_TOOL_OPTIONS=-Des.nativelibs.path=DIR (testing/snapgen/DESIGN.md)")
	}
	return l.boot(ctx, version)
}

func (l *lab) synthetic(ctx context.Context) error {
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	const standard = `"mapping.source.mode":"synthetic"`
	logs := l.logsdb()
	const stamp = `"@timestamp":{"type":"date"}`
	const series = `"mode":"time_series","routing_path":["dim"]`
	indices := []synthesized{
		{"types", standard, stamp + "," + fields(), sources("")},
		{"types-logsdb", logs, stamp + "," + fields(), sources("")},
		{"types-arrays", standard + `,"mapping.synthetic_source_keep":"arrays"`, stamp + "," + fields(), sources("")},
		{"objects", standard, stamp + "," + objectMapping, objectSources},
		{"objects-logsdb", logs, stamp + "," + objectMapping, objectSources},
		{"nested-types", standard, stamp + nestedTypesMapping(), nestedTypes()},
		{"nested-types-logsdb", logs, stamp + nestedTypesMapping(), nestedTypes()},
		{"series", series, seriesMapping, seriesSources()},
		{"types-series", series, stamp + `,"dim":{"type":"keyword","time_series_dimension":true},` + fields(), sources(`,"dim":"d"`)},
	}
	for _, x := range append(indices, l.moreIndices(standard, logs)...) {
		if err := l.synthesize(ctx, x); err != nil {
			return err
		}
	}
	if err := l.ask(ctx, "nested", "nested-deep", "nested-types-logsdb", "objects-logsdb", "series", "texts-logsdb", "types", "types-logsdb", "types-series"); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}

// logsdb returns the settings of an index of the mode logsdb.
func (l *lab) logsdb() string {
	const mode = `"mode":"logsdb"`
	if strings.HasPrefix(l.node.Version, "9") {
		return mode + `,"codec":"legacy_default"` // best_compression needs a native library that this node lacks
	}
	return mode
}

// synthesize creates one index with its documents.
func (l *lab) synthesize(ctx context.Context, x synthesized) error {
	body := fmt.Sprintf(`{"settings":{"index":{"number_of_shards":1,"number_of_replicas":0,%s}},"mappings":{"dynamic":"false","properties":{%s}}}`, x.settings, x.properties)
	err := l.steps(ctx, step{"PUT /" + x.name, body})
	if err == nil {
		err = l.each(ctx, x.name, x.docs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	return nil
}

// nestedTypesMapping returns the mapping of all samples below a nested object.
func nestedTypesMapping() string {
	return `,"top":{"type":"keyword"},"n":{"type":"nested","dynamic":"false","properties":{"@id":{"type":"long"},` + fields() + `}}`
}

const seriesMapping = `"@timestamp":{"type":"date"},"dim":{"type":"keyword","time_series_dimension":true},"place":{"type":"long","time_series_dimension":true},
"g":{"type":"double","time_series_metric":"gauge"},"h":{"type":"half_float","time_series_metric":"gauge"},"f":{"type":"float","time_series_metric":"gauge"},
"c":{"type":"long","time_series_metric":"counter"},"label":{"type":"keyword"},"note":{"type":"text"}`

func seriesSources() []string {
	var docs []string
	for i := range 40 {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d,"dim":"d%d","place":%d,"g":%g,"h":%d.5,"f":%g,"c":%d,"label":["z%d","a"],"note":"n%d"}`,
			1700000000000+i*1000, i%3, i%2, float64(i)/7, i, float64(i)*0.1, i*i, i, i))
	}
	return docs
}

// each indexes documents one by one, with and without ids.
func (l *lab) each(ctx context.Context, index string, docs []string) error {
	series := strings.HasSuffix(index, "series")
	var b strings.Builder
	for i, source := range docs {
		if series {
			fmt.Fprintf(&b, "{\"create\":{}}\n%s\n", source)
			continue
		}
		if !json.Valid([]byte(source)) {
			return fmt.Errorf("no JSON: %s", source)
		}
		fmt.Fprintf(&b, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", i, source)
	}
	return l.steps(ctx, step{"POST /" + index + "/_bulk", b.String()})
}
