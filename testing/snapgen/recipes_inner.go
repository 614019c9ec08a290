package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// innerRecipes make synthetic sources whose values are in several Lucene documents, outside their object, or normalized.
func innerRecipes() []recipe {
	var all []recipe
	for _, version := range []string{"8.19.21", "9.5.3"} {
		all = append(all, recipe{
			name: version + "-inner", holds: "synthetic sources: nested objects that outer documents include, keys of flattened objects, normalizers",
			onDemand: true, // kept with the package that reads it: -out rfs/source/rebuild/testdata
			make:     func(ctx context.Context, l *lab) error { return makeInner(ctx, l, version) },
		})
	}
	return append(all, recipe{
		name: "in-place-9-normalized", holds: "synthetic sources: normalizers of an index that 9.0.8 made and 9.5.3 went on with",
		onDemand: true, // likewise
		make:     makeNormalized,
	})
}

const includedMapping = `"top":{"type":"keyword"},
"n":{"type":"nested","include_in_parent":true,"properties":{"k":{"type":"keyword","ignore_above":3},"l":{"type":"long","ignore_malformed":true},"t":{"type":"text"},
"e":{"type":"keyword","doc_values":false},"all":{"type":"keyword","synthetic_source_keep":"all"},"f":{"type":"flattened"},"o":{"properties":{"d":{"type":"date"}}}}},
"r":{"type":"nested","include_in_root":true,"properties":{"k":{"type":"keyword"},"inner":{"type":"nested","include_in_root":true,"properties":{"q":{"type":"keyword"}}}}},
"p":{"type":"nested","properties":{"k":{"type":"keyword"},"inner":{"type":"nested","include_in_parent":true,"properties":{"q":{"type":"long"},
"deep":{"type":"nested","include_in_parent":true,"include_in_root":true,"properties":{"z":{"type":"double"}}}}}}},
"o":{"properties":{"n":{"type":"nested","include_in_parent":true,"properties":{"k":{"type":"ip"}}}}}`

var includedSources = []string{
	`{"@timestamp":1,"top":"a","n":[{"k":"b","l":2,"t":"z"},{"k":"a","l":[3,1],"t":["y","x"],"e":["e","d"]}]}`,
	`{"@timestamp":2,"n":{"k":["longer","c"],"l":["bad",7],"all":["b","a","b"]}}`,
	`{"@timestamp":3,"n":[{},{"f":{"x":"1","y":["b","a"]}},{"o":{"d":["2020-01-01",5]}}],"top":["z","y"]}`,
	`{"@timestamp":4,"r":[{"inner":[{"q":"z"},{},{"q":["y","x"]}]},{"k":"k"},{}]}`,
	`{"@timestamp":5,"p":[{"inner":{"q":2}},{"k":"k","inner":[{"deep":{"z":0.5}},{"q":1,"deep":[{"z":2},{}]}]},{"inner":{}}]}`,
	`{"@timestamp":6,"o":{"n":[{"k":"::1"},{"k":["10.0.0.2","10.0.0.1"]}]},"r":{"k":"v"},"p":{"k":"w"},"n":{"t":"u"}}`,
	`{"@timestamp":7,"top":"none"}`,
	`{"@timestamp":8,"n":[{"unmapped":"u","k":"m"},{"unmapped":[1,{"a":2}]}],"p":{"inner":{"unmapped":"v"}}}`,
}

const normalizedMapping = `"lower":{"type":"keyword","normalizer":"lowercase"},"own":{"type":"keyword","normalizer":"folded"},
"above":{"type":"keyword","normalizer":"lowercase","ignore_above":4},"null_lower":{"type":"keyword","normalizer":"lowercase","null_value":"NONE"},
"stored":{"type":"keyword","normalizer":"lowercase","store":true},"from":{"type":"keyword","copy_to":["lower","own"]},
"text_lower":{"type":"text","fields":{"raw":{"type":"keyword","normalizer":"lowercase"}}},"text_own":{"type":"text","fields":{"raw":{"type":"keyword","normalizer":"folded"}}},
"text_both":{"type":"text","fields":{"a":{"type":"keyword","normalizer":"lowercase"},"b":{"type":"keyword","ignore_above":4}}},
"text_store":{"type":"text","store":true,"fields":{"raw":{"type":"keyword","normalizer":"lowercase"}}},
"n":{"type":"nested","properties":{"lower":{"type":"keyword","normalizer":"lowercase"},"own":{"type":"keyword","normalizer":"folded"}}},
"o":{"properties":{"lower":{"type":"keyword","normalizer":"lowercase"},"t":{"type":"text","fields":{"raw":{"type":"keyword","normalizer":"lowercase"}}}}}`

// normalizedSettings is a normalizer of the index.
const normalizedSettings = `"analysis.normalizer.folded.type":"custom","analysis.normalizer.folded.filter":["lowercase"]`

var normalizedSources = []string{
	`{"@timestamp":1,"lower":"B","own":"b","above":"ABC","null_lower":"X","stored":"S","text_lower":"The Text","text_own":"Own Text","text_both":"Both","text_store":"Stored"}`,
	`{"@timestamp":2,"lower":["B","a","B"],"own":["b","A"],"above":["LONGER","Z","Y"],"null_lower":[null,"X"],"stored":["T","S"],"text_lower":["Z","A","Z"],"text_own":["z","A"],"text_both":["Longer","B","A"],"text_store":["Z","A"]}`,
	`{"@timestamp":3,"lower":null,"own":[],"above":"LONGER","null_lower":null,"text_lower":null}`,
	`{"@timestamp":4,"from":["F","E"]}`,
	`{"@timestamp":5,"from":"F","lower":"G","own":"h"}`,
	`{"@timestamp":6,"n":[{"lower":"B","own":"b"},{"lower":["Z","Y"]}],"o":{"lower":"É😀","t":["B","a"]}}`,
	`{"@timestamp":7,"o":[{"lower":"Z"},{"lower":"A","t":"T"}],"lower":"already","text_lower":"already"}`,
}

const mappedKeys = `"f":{"type":"flattened","ignore_above":8,"properties":{"k":{"type":"keyword","ignore_above":6},"t":{"type":"text"},"l":{"type":"long","ignore_malformed":true},
"o.d":{"type":"date","format":"yyyy-MM-dd"},"i":{"type":"ip"},"b":{"type":"boolean"},"x":{"type":"double"},"h":{"type":"half_float","null_value":2},
"n":{"type":"date_nanos"},"raw":{"type":"text","store":true}NEITHER}},
"o":{"properties":{"f":{"type":"flattened","properties":{"z":{"type":"keyword"},"A":{"type":"keyword"}}}}},"k":{"type":"keyword"}`

// mappedNeither are keys without doc values.
const mappedNeither = `,"none":{"type":"keyword","doc_values":false},"number":{"type":"long","doc_values":false},"kept":{"type":"keyword","doc_values":false,"store":true},
"lower":{"type":"keyword","normalizer":"lowercase"},"own":{"type":"keyword","normalizer":"folded"}`

var mappedSources = []string{
	`{"@timestamp":1,"f":{"k":["b","a","b"],"o":{"d":"2020-01-01","e":"x"},"z":"y"}}`,
	`{"@timestamp":2,"f":{"k":"only"},"k":"outer"}`,
	`{"@timestamp":3,"f":{"l":[3,"17","bad",1],"i":["10.0.0.1","::1"],"b":[true,false],"x":[0.1,-2],"h":[null,0.5],"n":"2023-11-14T22:13:20.123456789Z"}}`,
	`{"@timestamp":4,"f":{"k":null,"z":null}}`,
	`{"@timestamp":5,"f":{"k":["longer than six","c"],"z":"longer than eight","raw":["z","a","z"]}}`,
	`{"@timestamp":6,"f":{"t":["b text","a text"],"raw":"one"}}`,
	`{"@timestamp":7,"f":{"o":{"d":["2021-01-01","1999-12-31"]},"o.d":"2022-01-01"}}`,
	`{"@timestamp":8,"f":{"k":[]}}`, `{"@timestamp":9,"f":{}}`, `{"@timestamp":10,"f":null}`,
	`{"@timestamp":11,"f":[{"k":"b"},{"k":"a","z":"1"}]}`,
	`{"@timestamp":12,"o":{"f":{"z":"x","y":["2","1"],"A":"w","B":{"c":"d"}}}}`,
	`{"@timestamp":13,"f":{"k":{"sub":"v"},"l":{"s":"1"}}}`,
	`{"@timestamp":14,"f":{"k":[null,"a",null],"z":[null,"b"]}}`,
	`{"@timestamp":15,"f":{"k.sub":"v","k":"w"}}`,
	`{"@timestamp":16,"f":{"o":{"d":"2020-02-02"}}}`,
	`{"@timestamp":17,"f":{"b":{"x":"1","y":"2"},"b.z":"3"}}`,
}

// mappedNeitherSources are documents with the keys of mappedNeither.
var mappedNeitherSources = []string{
	`{"@timestamp":18,"f":{"none":["q","p"],"z":"1"}}`, `{"@timestamp":19,"f":{"number":5}}`, `{"@timestamp":20,"f":{"kept":["q","p"],"k":"k"}}`,
	`{"@timestamp":21,"f":{"lower":["Q","p"]}}`, `{"@timestamp":22,"f":{"own":["q","P"],"k":"k"}}`,
}

// makeInner creates the indices of one version.
func makeInner(ctx context.Context, l *lab, version string) error {
	if err := l.bootWithZstd(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	const standard, stamp = `"mapping.source.mode":"synthetic"`, `"@timestamp":{"type":"date"},`
	const arrays = standard + `,"mapping.synthetic_source_keep":"arrays"`
	logs, included := l.logsdb(), includedMapping
	if strings.HasPrefix(version, "9") { // which refuses several values of a binary column there
		included = strings.NewReplacer(`,"t":{"type":"text"}`, "", `,"ignore_above":3`, "").Replace(included)
	}
	indices := []synthesized{
		{"nested-included", standard, stamp + includedMapping, includedSources},
		{"nested-included-logsdb", logs, stamp + included, includedSources},
		{"nested-included-arrays", arrays, stamp + includedMapping, includedSources},
		{"normalized", standard + "," + normalizedSettings, stamp + normalizedMapping, normalizedSources},
		{"normalized-logsdb", logs + "," + normalizedSettings, stamp + normalizedMapping, normalizedSources},
	}
	if strings.HasPrefix(version, "9") {
		keys := strings.ReplaceAll(mappedKeys, "NEITHER", mappedNeither)
		all := append(mappedSources[:len(mappedSources):len(mappedSources)], mappedNeitherSources...)
		indices = append(indices,
			synthesized{"keys", standard + "," + normalizedSettings, stamp + keys, all},
			synthesized{"keys-logsdb", logs + "," + normalizedSettings, stamp + keys, all},
			synthesized{"keys-arrays", arrays + "," + normalizedSettings, stamp + keys, all},
			synthesized{"keys-columnar", `"mode":"columnar"`, stamp + strings.NewReplacer("NEITHER", "", `,"store":true`, "").Replace(mappedKeys), mappedSources})
	}
	var names []string
	for _, x := range indices {
		if err := l.synthesize(ctx, x); err != nil {
			return err
		}
		names = append(names, x.name)
	}
	if err := l.ask(ctx, names...); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}

// makeNormalized creates indices on 9.0.8 and continues on 9.5.3, which stores fewer originals of normalized values. The truth of a
// document is the answer of the node that wrote it: 9.5.3 returns normalized text where 9.0.8 stored the original.
func makeNormalized(ctx context.Context, l *lab) error {
	var early []document
	indices := []synthesized{
		{"normalized", `"mapping.source.mode":"synthetic",` + normalizedSettings, normalizedMapping, normalizedSources},
		{"normalized-logsdb", `"mode":"logsdb","codec":"legacy_default",` + normalizedSettings, normalizedMapping, normalizedSources},
	}
	for wave, version := range []string{"9.0.8", "9.5.3"} {
		if err := l.bootWithZstd(ctx, version); err != nil {
			return err
		}
		for _, x := range indices {
			if wave == 0 {
				if err := l.create(ctx, x.name, `"number_of_shards":1,`+x.settings, `"@timestamp":{"type":"date"},`+x.properties); err != nil {
					return fmt.Errorf("%s: %w", x.name, err)
				}
			} else if err := l.put(ctx, http.MethodGet, "/"+x.name, nil); err != nil {
				return err
			}
			var b body
			for n, source := range x.docs {
				b.index(fmt.Sprintf("%d-%d", wave, n), source)
			}
			if err := l.load(ctx, x.name, &b); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		if wave == 0 {
			var err error
			if early, err = l.dump(ctx, ""); err != nil {
				return err
			}
			if err := l.park(ctx); err != nil {
				return err
			}
		}
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	if err := l.take(ctx, "snap1", ""); err != nil {
		return err
	}
	later := slices.DeleteFunc(l.truths["snap1"], func(d document) bool { return strings.HasPrefix(d.ID, "0-") })
	l.truths["snap1"] = append(early, later...)
	return nil
}
