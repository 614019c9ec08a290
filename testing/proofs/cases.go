package main

import "encoding/json"

// source is a version and what it is asked.
type source struct {
	version string
	types   bool // documents have a mapping type
	cases   []proof
}

// proof is one case: the query must find some of the documents, not all.
type proof struct {
	name      string // of the golden file
	rules     []string
	settings  string // members of an object
	mappings  string
	documents []document
	query     string
	// equivalent is the query for the target, where it has to be another one.
	equivalent string
}

// docs makes documents of the type doc.
func docs(sources ...string) []document { return typed("doc", sources...) }

func typed(typ string, sources ...string) []document {
	var all []document
	for _, s := range sources {
		all = append(all, document{Type: typ, Source: json.RawMessage(s)})
	}
	return all
}

func rules(names ...string) []string { return names }

// properties makes the mapping of the type doc.
func properties(p string) string { return `{"doc":{"properties":{` + p + `}}}` }

func untyped(p string) string { return `{"properties":{` + p + `}}` }

var words = docs(`{"f":"The Quick brown fox"}`, `{"f":"lazy dogs"}`, `{"f":"quick silver"}`)

var sources = []source{
	{"2.4.6", true, []proof{
		{name: "string-analyzed-2.4", rules: rules("string-to-text"), mappings: properties(`"f":{"type":"string","fields":{"raw":{"type":"string","index":"not_analyzed"}}}`), documents: words, query: `{"match":{"f":"quick"}}`},
		{name: "string-not-analyzed-2.4", rules: rules("string-to-text"), mappings: properties(`"f":{"type":"string","index":"not_analyzed","ignore_above":50}`), documents: words, query: `{"term":{"f":"quick silver"}}`},
		{name: "string-subfield-2.4", rules: rules("string-to-text"), mappings: properties(`"f":{"type":"string","fields":{"raw":{"type":"string","index":"not_analyzed"}}}`), documents: words, query: `{"term":{"f.raw":"lazy dogs"}}`},
		{name: "string-not-indexed-2.4", rules: rules("string-to-text"), mappings: properties(`"f":{"type":"string","index":"no"},"n":{"type":"integer"}`), documents: docs(`{"f":"a","n":1}`, `{"f":"b","n":2}`), query: `{"range":{"n":{"gt":1}}}`},
		{name: "all-enabled-2.4", rules: rules("all-field"), mappings: `{"doc":{"_all":{"enabled":true},"properties":{"f":{"type":"string"},"g":{"type":"string"}}}}`,
			documents: docs(`{"f":"one","g":"fox"}`, `{"f":"fox","g":"two"}`, `{"f":"three"}`), query: `{"query_string":{"query":"fox"}}`},
		{name: "all-disabled-2.4", rules: rules("all-field", "include-in-all"), mappings: `{"doc":{"_all":{"enabled":false},"properties":{"f":{"type":"string","include_in_all":false}}}}`, documents: words, query: `{"match":{"f":"fox"}}`},
		{name: "timestamp-ttl-2.4", rules: rules("timestamp-field"), mappings: `{"doc":{"_timestamp":{"enabled":true},"_ttl":{"enabled":true,"default":"10d"},"properties":{"f":{"type":"string"}}}}`, documents: words, query: `{"match":{"f":"dogs"}}`},
		{name: "parent-2.4", rules: rules("parent-field", "mapping-types"), mappings: `{"question":{"properties":{"f":{"type":"string"}}},"answer":{"_parent":{"type":"question"},"properties":{"f":{"type":"string"},"g":{"type":"long"}}}}`,
			documents: []document{{Type: "question", Source: json.RawMessage(`{"f":"why fox"}`)}, {Type: "answer", Parent: "1", Source: json.RawMessage(`{"f":"because fox","g":1}`)}, {Type: "answer", Parent: "1", Source: json.RawMessage(`{"f":"none","g":2}`)}},
			query:     `{"match":{"f":"fox"}}`},
		{name: "two-types-2.4", rules: rules("mapping-types"), mappings: `{"a":{"properties":{"f":{"type":"string"}}},"b":{"properties":{"n":{"type":"long"}}}}`,
			documents: append(typed("a", `{"f":"fox"}`, `{"f":"dog"}`), typed("b", `{"n":3}`, `{"n":4}`)...), query: `{"bool":{"should":[{"match":{"f":"fox"}},{"term":{"n":4}}]}}`},
		{name: "default-mapping-2.4", rules: rules("default-mapping", "dynamic-templates"), mappings: `{"_default_":{"_all":{"enabled":false},"dynamic_templates":[{"s":{"match_mapping_type":"string","mapping":{"type":"string","index":"not_analyzed"}}}]},"doc":{}}`,
			documents: words, query: `{"term":{"f":"lazy dogs"}}`},
		{name: "dynamic-templates-2.4", rules: rules("dynamic-templates", "string-to-text"), mappings: `{"doc":{"dynamic_templates":[{"raw":{"match":"*_raw","match_mapping_type":"string","mapping":{"index":"not_analyzed"}}},{"rest":{"match":"*","match_mapping_type":"string","mapping":{"type":"string","omit_norms":true}}}]}}`,
			documents: docs(`{"a_raw":"Big Fox"}`, `{"a_raw":"fox"}`, `{"b":"Big Fox"}`), query: `{"bool":{"should":[{"term":{"a_raw":"Big Fox"}},{"term":{"b":"fox"}}]}}`},
		{name: "norms-2.4", rules: rules("norms"), mappings: properties(`"f":{"type":"string","norms":{"enabled":false}},"g":{"type":"string","omit_norms":true,"index":"not_analyzed"},"k":{"type":"string","index":"not_analyzed","norms":{"enabled":true}}`),
			documents: docs(`{"f":"fox one","g":"x","k":"y"}`, `{"f":"dog","g":"x","k":"y"}`), query: `{"bool":{"must":[{"match":{"f":"fox"}},{"term":{"g":"x"}},{"term":{"k":"y"}}]}}`},
		{name: "index-options-2.4", rules: rules("index-options"), mappings: properties(`"f":{"type":"string","index_options":"offsets"},"g":{"type":"string","index_options":"docs"},"k":{"type":"string","index":"not_analyzed","index_options":"positions"}`),
			documents: docs(`{"f":"big fox","g":"dog","k":"A b"}`, `{"f":"fox big","g":"dog","k":"A b"}`), query: `{"bool":{"must":[{"match_phrase":{"f":"big fox"}},{"match":{"g":"dog"}},{"term":{"k":"A b"}}]}}`},
		{name: "boolean-words-2.4", rules: rules("boolean-option"), mappings: properties(`"f":{"type":"string","store":"yes"},"n":{"type":"long","index":"not_analyzed","doc_values":"true"}`),
			documents: docs(`{"f":"fox","n":1}`, `{"f":"fox","n":2}`), query: `{"term":{"n":2}}`},
		{name: "old-options-2.4", rules: rules("old-option"), mappings: properties(`"n":{"type":"long","precision_step":8},"g":{"type":"geo_point","lat_lon":true,"geohash":true,"geohash_prefix":true}`),
			documents: docs(`{"n":5,"g":"41.1,-71.3"}`, `{"n":6,"g":"10,10"}`, `{"n":50,"g":"41.2,-71.2"}`), query: `{"bool":{"filter":[{"range":{"n":{"lt":10}}},{"geo_bounding_box":{"g":{"top_left":"42,-72","bottom_right":"40,-70"}}}]}}`},
		{name: "field-boost-2.4", rules: rules("field-boost"), mappings: properties(`"f":{"type":"string","boost":3.0}`), documents: words, query: `{"match":{"f":"fox"}}`},
		{name: "joda-dates-2.4", rules: rules("date-format"), mappings: properties(`"d":{"type":"date","format":"YYYY-MM-dd HH:mm:ss Z||dateOptionalTime||epoch_millis"}`),
			documents: docs(`{"d":"2014-05-06 07:08:09 +0200"}`, `{"d":"2014-05-06T06:00:00Z"}`, `{"d":1399356000000}`, `{"d":"2020-01-01"}`), query: `{"range":{"d":{"lt":"2014-05-06T05:30:00Z","format":"dateOptionalTime"}}}`,
			equivalent: `{"range":{"d":{"lt":"2014-05-06T05:30:00Z","format":"date_optional_time"}}}`},
		{name: "classic-similarity-2.4", rules: rules("legacy-similarity"), settings: `"similarity":{"own":{"type":"BM25","b":0.5}}`, mappings: properties(`"f":{"type":"string","similarity":"default"},"g":{"type":"string","similarity":"own"}`),
			documents: docs(`{"f":"fox","g":"a"}`, `{"f":"dog","g":"b"}`, `{"f":"cat","g":"b"}`), query: `{"bool":{"should":[{"match":{"f":"fox"}},{"match":{"f":"dog"}}]}}`},
		{name: "standard-filter-2.4", rules: rules("standard-filter"), settings: `"analysis":{"analyzer":{"a":{"type":"custom","tokenizer":"standard","filter":["standard","lowercase"]}}}`, mappings: properties(`"f":{"type":"string","analyzer":"a"}`), documents: words, query: `{"match":{"f":"QUICK"}}`},
		{name: "analysis-names-2.4", rules: rules("analysis-name", "gram-limit"), settings: `"analysis":{"analyzer":{"a":{"type":"custom","tokenizer":"g","filter":["lowercase"]},"e":{"type":"custom","tokenizer":"keyword","filter":["lowercase","edges"]},"s":{"type":"custom","tokenizer":"keyword","filter":["lowercase"]}},
 "tokenizer":{"g":{"type":"nGram","min_gram":3,"max_gram":8}},"filter":{"edges":{"type":"edgeNGram","min_gram":2,"max_gram":10}}}`,
			mappings: properties(`"f":{"type":"string","analyzer":"a","search_analyzer":"s"},"g":{"type":"string","analyzer":"e","search_analyzer":"s"}`), documents: docs(`{"f":"Foxglove","g":"Foxglove"}`, `{"f":"lovely","g":"lovely"}`, `{"f":"dog","g":"glove"}`),
			query: `{"bool":{"should":[{"match":{"f":"glov"}},{"match":{"g":"lovel"}}]}}`},
		{name: "payload-filter-2.4", rules: rules("analysis-name"), settings: `"analysis":{"analyzer":{"a":{"type":"custom","tokenizer":"whitespace","filter":["lowercase","p"]}},"filter":{"p":{"type":"delimited_payload_filter","encoding":"float"}}}`,
			mappings: properties(`"f":{"type":"string","analyzer":"a"}`), documents: docs(`{"f":"fox|1.5 dog|2"}`, `{"f":"cat|1"}`), query: `{"match":{"f":"dog"}}`},
		{name: "default-index-analyzer-2.4", rules: rules("default-index-analyzer"), settings: `"analysis":{"analyzer":{"default_index":{"type":"keyword"},"default_search":{"type":"keyword"}}}`, mappings: properties(`"f":{"type":"string"}`), documents: words, query: `{"match":{"f":"lazy dogs"}}`},
		{name: "mapper-dynamic-2.4", rules: rules("dynamic-setting"), settings: `"mapper":{"dynamic":false}`, mappings: properties(`"f":{"type":"string"}`), documents: docs(`{"f":"fox","new":"cat"}`, `{"f":"dog"}`), query: `{"match":{"new":"cat"}}`},
	}},
	{"5.6.16", true, []proof{
		{name: "classic-similarity-5.6", rules: rules("legacy-similarity"), settings: `"similarity":{"own":{"type":"classic","discount_overlaps":false}}`, mappings: properties(`"f":{"type":"text","similarity":"classic"},"g":{"type":"text","similarity":"own"}`),
			documents: docs(`{"f":"fox","g":"a"}`, `{"f":"dog","g":"b"}`), query: `{"bool":{"must":[{"match":{"f":"fox"}},{"match":{"g":"a"}}]}}`},
		{name: "include-in-all-5.6", rules: rules("include-in-all", "all-field"), mappings: `{"doc":{"_all":{"enabled":true},"properties":{"f":{"type":"text","include_in_all":true},"n":{"type":"long","include_in_all":false}}}}`, documents: words, query: `{"query_string":{"query":"fox"}}`},
		{name: "standard-filter-5.6", rules: rules("standard-filter"), settings: `"analysis":{"analyzer":{"a":{"type":"custom","tokenizer":"standard","filter":["standard","lowercase"]}}}`, mappings: properties(`"f":{"type":"text","analyzer":"a"}`), documents: words, query: `{"match":{"f":"QUICK"}}`},
		{name: "geo-shape-5.6", rules: rules("geo-shape"), mappings: properties(`"s":{"type":"geo_shape","tree":"quadtree","precision":"1km"}`), documents: docs(`{"s":{"type":"point","coordinates":[10,10]}}`, `{"s":{"type":"point","coordinates":[50,50]}}`),
			query: `{"geo_shape":{"s":{"shape":{"type":"envelope","coordinates":[[5,15],[15,5]]},"relation":"intersects"}}}`},
		{name: "date-offset-5.6", rules: rules("date-format"), mappings: properties(`"d":{"type":"date","format":"dd/MMM/YYYY:HH:mm:ss Z"}`), documents: docs(`{"d":"06/May/2014:07:08:09 +0200"}`, `{"d":"06/May/2014:07:08:09 -0500"}`),
			query: `{"range":{"d":{"lt":"06/May/2014:06:00:00 +0000"}}}`},
		{name: "mapper-dynamic-5.6", rules: rules("dynamic-setting"), settings: `"mapper":{"dynamic":false}`, mappings: properties(`"f":{"type":"text"}`), documents: docs(`{"f":"fox","new":"cat"}`, `{"f":"dog"}`), query: `{"match":{"new":"cat"}}`},
	}},
	{"6.8.23", true, []proof{
		{name: "joda-week-dates-6.8", rules: rules("date-format"), mappings: properties(`"d":{"type":"date","format":"xxxx-'W'ww-e"}`), documents: docs(`{"d":"2018-W01-1"}`, `{"d":"2019-W52-7"}`), query: `{"range":{"d":{"gte":"2019-W01-1"}}}`},
		{name: "marked-java-dates-6.8", rules: rules("date-format"), mappings: properties(`"d":{"type":"date","format":"8uuuu-MM-dd XX"}`), documents: docs(`{"d":"2018-01-01 +0000"}`, `{"d":"2019-12-31 +0100"}`), query: `{"range":{"d":{"gte":"2019-01-01 +0000"}}}`},
	}},
	{"8.19.21", false, []proof{
		{name: "flattened-8.19", rules: rules("flattened"), mappings: untyped(`"f":{"type":"flattened"}`), documents: docs(`{"f":{"a":{"b":"x"}}}`, `{"f":{"a":{"b":"y"}}}`, `{"f":{"c":"x"}}`), query: `{"term":{"f.a.b":"x"}}`},
		{name: "flattened-whole-8.19", rules: rules("flattened"), mappings: untyped(`"f":{"type":"flattened"}`), documents: docs(`{"f":{"a":{"b":"x"}}}`, `{"f":{"a":{"b":"y"}}}`, `{"f":{"c":"x"}}`), query: `{"term":{"f":"x"}}`},
		{name: "dense-vector-8.19", rules: rules("dense-vector"), mappings: untyped(`"v":{"type":"dense_vector","dims":3,"index":true,"similarity":"l2_norm"},"f":{"type":"keyword"}`), documents: docs(`{"v":[1,2,3],"f":"a"}`, `{"v":[3,2,1],"f":"b"}`), query: `{"term":{"f":"b"}}`},
		{name: "runtime-8.19", rules: rules("runtime-fields"), mappings: `{"runtime":{"r":{"type":"long"}},"properties":{"f":{"type":"keyword"}}}`, documents: docs(`{"f":"a","r":1}`, `{"f":"b","r":2}`), query: `{"term":{"f":"a"}}`},
		{name: "dynamic-runtime-8.19", rules: rules("dynamic-runtime"), mappings: `{"dynamic":"runtime"}`, documents: docs(`{"s":"fox","n":1}`, `{"s":"fox","n":7}`), query: `{"range":{"n":{"gt":3}}}`},
		{name: "template-types-8.19", rules: rules("dynamic-templates"), mappings: `{"dynamic_templates":[{"two":{"match_mapping_type":["long","double"],"mapping":{"type":"keyword"}}}]}`, documents: docs(`{"n":1,"d":1.5}`, `{"n":12,"d":2.5}`), query: `{"prefix":{"n":"12"}}`},
		{name: "script-field-8.19", rules: rules("time-series", "old-option"), mappings: `{"subobjects":true,"properties":{"n":{"type":"long","time_series_metric":"gauge"},"k":{"type":"keyword","time_series_dimension":true},"o":{"type":"object","subobjects":true,"properties":{"x":{"type":"keyword"}}}}}`,
			documents: docs(`{"n":1,"k":"a","o":{"x":"1"}}`, `{"n":5,"k":"a","o":{"x":"2"}}`), query: `{"bool":{"must":[{"range":{"n":{"gt":2}}},{"term":{"k":"a"}},{"term":{"o.x":"2"}}]}}`},
	}},
	// Of these types the published parts of Elasticsearch have none; OpenSearch has them by the same names.
	{"os2.19.4", false, []proof{
		{name: "wildcard-os2.19", rules: rules("wildcard"), mappings: untyped(`"f":{"type":"wildcard"}`), documents: words, query: `{"wildcard":{"f":"*brown*"}}`},
		{name: "constant-keyword-os2.19", rules: rules("constant-keyword"), mappings: untyped(`"c":{"type":"constant_keyword","value":"v"},"f":{"type":"keyword"}`), documents: docs(`{"c":"v","f":"a"}`, `{"f":"b"}`), query: `{"bool":{"must":[{"term":{"c":"v"}},{"term":{"f":"b"}}]}}`},
		{name: "unsigned-long-os2.19", rules: rules("unsigned-long"), mappings: untyped(`"f":{"type":"unsigned_long"}`), documents: docs(`{"f":18446744073709551615}`, `{"f":18446744073709551614}`, `{"f":7}`), query: `{"term":{"f":"18446744073709551615"}}`},
		{name: "match-only-text-os2.19", rules: rules("match-only-text"), mappings: untyped(`"f":{"type":"match_only_text"}`), documents: words, query: `{"match":{"f":"quick"}}`},
		{name: "flat-object-os2.19", rules: rules("flattened"), mappings: untyped(`"f":{"type":"flat_object"}`), documents: docs(`{"f":{"a":{"b":"x"}}}`, `{"f":{"a":{"b":"y"}}}`, `{"f":{"c":"x"}}`), query: `{"term":{"f.a.b":"x"}}`},
	}},
}
