package main

import (
	"fmt"
	"strings"
)

// moreIndices returns indices of types whose synthetic sources have special forms.
func (l *lab) moreIndices(standard, logs string) []synthesized {
	const stamp = `"@timestamp":{"type":"date"},`
	nine := strings.HasPrefix(l.node.Version, "9")
	columnText, vectors := "", vectorMapping
	if nine {
		columnText, vectors = `,"column":{"type":"text","doc_values":true}`, vectors+`,"brain":{"type":"dense_vector","dims":3,"element_type":"bfloat16","index":false}`
	}
	all := []synthesized{
		{"flattened", standard, stamp + flattenedMapping, flattenedSources},
		{"flattened-logsdb", logs, stamp + flattenedMapping, flattenedSources},
		{"texts", standard, stamp + textMapping + columnText, textSources(nine)},
		{"texts-logsdb", logs, stamp + textMapping + columnText, textSources(nine)},
		{"vectors", standard, stamp + vectors, vectorSources(nine)},
		{"vectors-logsdb", logs, stamp + vectors, vectorSources(nine)},
		{"vectors-indexed", standard, stamp + vectorIndexedMapping, vectorIndexedSources},
		{"vectors-sparse", standard, stamp + sparseMapping, sparseSources},
		{"others", standard, stamp + otherMapping, otherSources},
		{"others-logsdb", logs, stamp + otherMapping, otherSources},
		{"nested", standard, stamp + nestedMapping, nestedSources},
		{"nested-logsdb", logs, stamp + nestedMapping, nestedSources},
		{"nested-large", standard, stamp + nestedMapping, nestedLarge()},
		{"nested-deep", standard, stamp + nestedDeepMapping, nestedDeepSources},
		{"nested-deep-logsdb", logs, stamp + nestedDeepMapping, nestedDeepSources},
	}
	return all
}

const flattenedMapping = `"f":{"type":"flattened"},"short":{"type":"flattened","ignore_above":5},
"nothing":{"type":"flattened","doc_values":false,"index":false},"null_value":{"type":"flattened","null_value":"NULL"}`

var flattenedSources = []string{
	`{"f":{"foo":10,"foo.bar":20,"foo.baz":{"q":[3,1,3,null]}},"@timestamp":1700000000001}`,
	`{"f":{"a":{"b":1},"b":{"c":2},"b.d":3},"@timestamp":1700000000002}`,
	`{"f":{"nulls":[null,null],"one":null,"mix":[null,"b","a","b"]},"@timestamp":1700000000003}`,
	`{"f":{"😀":"😀","\ue000":"x","ü":{"\u0002":"y"},"a":"\u0001\"\\"},"@timestamp":1700000000004}`,
	`{"f":{"deep":{"er":{"est":[true,1.50,"s"]}},"deep-":1,"deep0":2},"@timestamp":1700000000005}`,
	`{"short":{"a":["longer than five","abc","b"],"b":"also longer","c":["x"]},"@timestamp":1700000000006}`,
	`{"short":{"only":"longer than five"},"@timestamp":1700000000007}`,
	`{"nothing":{"b":[2,1],"a":null,"c.d":"x"},"@timestamp":1700000000008}`,
	`{"f":[{"a":1},{"a":[0,1],"b":2}],"@timestamp":1700000000009}`,
	`{"f":{},"short":{"a":[]},"@timestamp":1700000000010}`,
	`{"f":null,"null_value":{"a":null,"b":["x",null]},"@timestamp":1700000000011}`,
	`{"f":{"foo":"1","foo!":"2","foo.bar":"3"},"@timestamp":1700000000012}`,
	`{"f":{"z":{"y":{"x":1},"w":2},"z.y.v":3},"@timestamp":1700000000013}`,
	`{"f":{"a":[["n","m"],"l"],"b":[1]},"@timestamp":1700000000014}`,
}

const textMapping = `"kept":{"type":"text","fields":{"raw":{"type":"keyword","doc_values":false,"store":true},"n":{"type":"long","ignore_malformed":true}}},
"normal":{"type":"text","fields":{"raw":{"type":"keyword","normalizer":"lowercase"}}},"positions":{"type":"text","term_vector":"yes","norms":false}`

func textSources(nine bool) []string {
	all := []string{
		`{"kept":["z","a","z"],"normal":["Z","a","Z"],"positions":["z","a","z"],"@timestamp":1700000000001}`,
		`{"kept":"12","normal":"Ü 😀","positions":"tab\t","@timestamp":1700000000002}`,
		`{"kept":[null,"a"],"normal":[],"positions":null,"@timestamp":1700000000003}`,
	}
	if nine {
		all = append(all, `{"column":["z","a 😀","z"],"@timestamp":1700000000004}`, `{"column":"one","@timestamp":1700000000005}`,
			`{"column":[null,"z","`+strings.Repeat("long ", 8000)+`"],"@timestamp":1700000000006}`)
	}
	return all
}

const vectorMapping = `"float":{"type":"dense_vector","dims":3,"index":false},"byte":{"type":"dense_vector","dims":4,"element_type":"byte","index":false},
"bit":{"type":"dense_vector","dims":16,"element_type":"bit","index":false}`

const vectorIndexedMapping = `"indexed":{"type":"dense_vector","dims":2,"similarity":"l2_norm","index_options":{"type":"flat"}}`

var vectorIndexedSources = []string{`{"indexed":[0.5,-0.25],"@timestamp":1700000000001}`}

func vectorSources(nine bool) []string {
	all := []string{
		`{"float":[0.1,-2,1e-10],"byte":[1,-128,127,0],"bit":[1,-1],"@timestamp":1700000000001}`,
		`{"float":[16777216,-1048576.5,0.001],"@timestamp":1700000000002}`,
		`{"byte":"7f80ff00","bit":"00ff","@timestamp":1700000000003}`,
		`{"@timestamp":1700000000004}`,
	}
	if nine {
		all = append(all, `{"brain":[0.1,-2,1e-10],"@timestamp":1700000000005}`)
	}
	return all
}

const sparseMapping = `"sparse":{"type":"sparse_vector"}`

var sparseSources = []string{`{"sparse":{"b":0.5,"a":2},"@timestamp":1700000000001}`}

const otherMapping = `"suggest":{"type":"completion"},
"attributes":{"type":"passthrough","priority":1,"properties":{"k":{"type":"keyword"},"n":{"type":"long"}}}`

var otherSources = []string{
	`{"@timestamp":1700000000001}`,
	`{"suggest":["nevermind",{"input":["x","y"],"weight":3}],"@timestamp":1700000000002}`,
	`{"attributes":{"n":[2,1],"k":"v"},"@timestamp":1700000000003}`,
	`{"suggest":"one","@timestamp":1700000000004}`,
}

const nestedMapping = `"plain":{"type":"keyword"},"n":{"type":"nested","properties":{"k":{"type":"keyword"},"v":{"type":"long"},"t":{"type":"text"},
"o":{"properties":{"x":{"type":"long"}}},"f":{"type":"flattened"}}}`

var nestedSources = []string{
	`{"plain":"none","@timestamp":1700000000001}`,
	`{"plain":"one","n":{"k":"a","v":[2,1],"t":"text 😀","o":{"x":1}},"@timestamp":1700000000002}`,
	`{"plain":"array of one","n":[{"k":["b","a"]}],"@timestamp":1700000000003}`,
	`{"plain":"several","n":[{"k":"z","unmapped":{"u":1}},{"v":1,"o":[{"x":2},{"x":1}]},{"k":"a","f":{"q":[2,1]}}],"@timestamp":1700000000004}`,
	`{"plain":"empty","n":[{},{"k":"x"},{}],"@timestamp":1700000000005}`,
	`{"n":[],"@timestamp":1700000000006}`,
	`{"n":null,"@timestamp":1700000000007}`,
	`{"n":[null,{"k":"x"}],"@timestamp":1700000000008}`,
	`{"n":{},"@timestamp":1700000000009}`,
}

// nestedLarge returns documents whose nested documents fill several chunks of stored fields.
func nestedLarge() []string {
	var docs []string
	for i := range 3 {
		var nested []string
		for j := range 300 {
			nested = append(nested, fmt.Sprintf(`{"v":%d,"t":"%s"}`, i*1000+j, strings.Repeat("one text as any other ", 40)))
		}
		docs = append(docs, fmt.Sprintf(`{"plain":"%d","n":[%s],"@timestamp":%d}`, i, strings.Join(nested, ","), 1700000000000+i))
	}
	return docs
}

const nestedDeepMapping = `"plain":{"type":"keyword"},"m":{"type":"nested","properties":{"w":{"type":"long"},"k":{"type":"keyword"}}},
"o":{"properties":{"n":{"type":"nested","properties":{"k":{"type":"keyword"},"inner":{"type":"nested","properties":{"q":{"type":"keyword"}}}}}}}`

var nestedDeepSources = []string{
	`{"plain":"both","m":[{"w":2},{"w":1}],"o":{"n":[{"k":"b"},{"k":"a"}]},"@timestamp":1700000000001}`,
	`{"o":{"n":{"k":"a","inner":[{"q":"z"},{"q":"y"}]}},"@timestamp":1700000000002}`,
	`{"o":{"n":[{"k":"a","inner":{"q":"z"}},{"k":"b","inner":[{"q":"x"},{"q":"w"}]}]},"m":{"k":"m"},"@timestamp":1700000000003}`,
	`{"o":{"n":[{"inner":{"q":"z"}},{"k":"b"}]},"@timestamp":1700000000004}`,
	`{"plain":"none","@timestamp":1700000000005}`,
}
