package main

import (
	"context"
	"fmt"
	"strings"
)

// typeRecipes make synthetic sources of types whose modules have no published artifact. They need a node with these types (DESIGN.md).
func typeRecipes() []recipe {
	var all []recipe
	for _, version := range []string{"8.19.21", "9.5.3"} {
		all = append(all, recipe{
			name: version + "-types", holds: "synthetic sources: field types of modules that are not published",
			onDemand: true, // kept with the package that reads it: -out rfs/source/rebuild/testdata
			make:     func(ctx context.Context, l *lab) error { return makeTypes(ctx, l, version) },
		})
	}
	return all
}

const typesMapping = `"message":{"type":"match_only_text"},"message_keyword":{"type":"match_only_text","fields":{"raw":{"type":"keyword"}}},
"message_above":{"type":"match_only_text","fields":{"raw":{"type":"keyword","ignore_above":8}}},
"text_message":{"type":"text","fields":{"m":{"type":"match_only_text"}}},"keyword_message":{"type":"keyword","fields":{"m":{"type":"match_only_text"}}},
"wild":{"type":"wildcard"},"wild_above":{"type":"wildcard","ignore_above":8},"wild_null":{"type":"wildcard","null_value":"none"},
"text_wild":{"type":"text","fields":{"w":{"type":"wildcard"}}},"release":{"type":"version"},"release_keyword":{"type":"version","fields":{"k":{"type":"keyword"}}},
"metric":{"type":"aggregate_metric_double","metrics":["value_count","sum","max","min"],"default_metric":"max","ignore_malformed":true},
"metric_two":{"type":"aggregate_metric_double","metrics":["max","value_count"],"default_metric":"max"},
"histogram":{"type":"histogram","ignore_malformed":true},"rank":{"type":"rank_feature"},"ranks":{"type":"rank_features"},
"area":{"type":"geo_shape","ignore_malformed":true}`

// typesMembers are the members of documents with these types.
var typesMembers = []string{
	`"message":"The quick 😀","message_keyword":"zeta","message_above":"short","text_message":"one","keyword_message":"two"`,
	`"message":["b\tq\"\\/","ü\u0001","a","b😀",5,true,null],"message_keyword":["zeta","alpha","zeta","b😀"],"message_above":["longer than eight 😀","z","a","z"]`,
	`"message":null,"message_keyword":[],"message_above":[null],"wild":null,"release":null,"metric":null,"histogram":null,"rank":null,"area":null`,
	`"message":[],"wild":[],"release":[],"area":[]`,
	`"message":["only one"],"message_above":["longer than eight"],"wild":["one"],"release":["1.0"]`,
	`"text_message":["b","a","b"],"keyword_message":["b","a","b"],"text_wild":["b","a","b"]`,
	`"wild":"*😀?","wild_above":"longer than eight 😀","wild_null":null,"text_wild":"x"`,
	`"wild":["b","a","b","",7,false],"wild_above":["zz","longer than eight","a","longer than eight"],"wild_null":["a",null]`,
	`"wild":"` + strings.Repeat("a value of more than a byte for its length ", 8) + `","message":"` + strings.Repeat("long text ", 400) + `"`,
	`"release":"1.10.2-alpha.3+build.7","release_keyword":"8.19.21"`,
	`"release":["1.10","1.9","1.9","01.2","no version 😀","","2.0.0-rc.10","2.0.0-rc.9","-1","1..2",3,4.5],"release_keyword":["2","10"]`,
	`"release":"123456789012345678901234567890.1"`,
	`"metric":{"min":-302.5,"max":702.30,"sum":200,"value_count":25},"metric_two":{"value_count":0,"max":1e300}`,
	`"metric":{"value_count":2147483647,"sum":-0.0,"min":0.1,"max":12345678}`,
	`"metric":{"min":1,"max":2}`,
	`"metric":"no object 😀"`,
	`"metric":[{"min":1,"max":2,"sum":3,"value_count":4}]`,
	`"metric":[{"min":1,"max":2,"sum":3,"value_count":4},{"min":1,"max":2,"sum":3,"value_count":4}]`,
	`"histogram":{"values":[0.1,0.2,0.3,1e7],"counts":[3,7,0,300]}`,
	`"histogram":{"counts":[9007199254740993],"values":[-5]}`,
	`"histogram":{"values":[],"counts":[]}`,
	`"histogram":{"values":[2,1],"counts":[1,1]}`,
	`"histogram":[{"values":[1],"counts":[2]},{"values":[3],"counts":[4]},5]`,
	`"rank":7.5,"ranks":{"b":2,"a":0.5}`,
	`"area":"POINT (-77.03653 38.897676)"`,
	`"area":[{"type":"Point","coordinates":[-71.5,41.5]},"POLYGON ((0 0, 1 0, 1 1, 0 0))"]`,
	`"area":{"type":"LineString","coordinates":[[-77.03653,38.897676],[-77.009051,38.889939]],"extra":null}`,
}

// typesSources returns documents with the members; more precedes them.
func typesSources(more string) []string {
	docs := []string{`{"@timestamp":1` + more + `}`}
	for i, m := range typesMembers {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d%s,%s}`, 1700000000000+i, more, m))
	}
	return docs
}

// nestedTypesSources returns documents with the members in nested objects.
func nestedTypesSources() []string {
	var docs []string
	for i, m := range typesMembers {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d,"n":[{%s},{"@id":%d},{%s}]}`, 1700000000000+i, m, i, typesMembers[(i+3)%len(typesMembers)]))
	}
	return docs
}

// countedSources returns documents that represent several (_doc_count), as in a downsampled index.
func countedSources(more string) []string {
	var docs []string
	for i, count := range []string{"", `,"_doc_count":2`, `,"_doc_count":1`, `,"_doc_count":2147483647`, ""} {
		docs = append(docs, fmt.Sprintf(`{"@timestamp":%d%s%s,"k":"z","A":1}`, 1700000000000+i, more, count))
	}
	return docs
}

func makeTypes(ctx context.Context, l *lab, version string) error {
	if err := l.bootWithZstd(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	const standard, stamp = `"mapping.source.mode":"synthetic"`, `"@timestamp":{"type":"date"},`
	for _, x := range []synthesized{
		{"modules", standard, stamp + typesMapping, typesSources("")},
		{"modules-logsdb", l.logsdb(), stamp + typesMapping, typesSources("")},
		{"modules-arrays", standard + `,"mapping.synthetic_source_keep":"arrays"`, stamp + typesMapping, typesSources("")},
		{"nested-modules", standard, stamp + `"n":{"type":"nested","properties":{"@id":{"type":"long"},` + typesMapping + `}}`, nestedTypesSources()},
		{"counted", standard, stamp + `"A":{"type":"long"},"k":{"type":"keyword"}`, countedSources("")},
		{"counted-series", `"mode":"time_series","routing_path":["dim"]`, stamp + `"dim":{"type":"keyword","time_series_dimension":true}`, countedSources(`,"dim":"d"`)},
		{"modules-series", `"mode":"time_series","routing_path":["dim"]`, stamp + `"dim":{"type":"keyword","time_series_dimension":true},` + typesMapping, typesSources(`,"dim":"d"`)},
	} {
		if err := l.synthesize(ctx, x); err != nil {
			return err
		}
	}
	return l.take(ctx, "snap1", "")
}
