package metadata_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// everyType has a field of each type and option that a rule or the target itself decides about,
// and a document that must be taken whole.
var everyType = []struct{ name, created, mapping, document string }{
	{"Elasticsearch 1", "1070699", `{"_all":{"enabled":false},"_timestamp":{"enabled":true},"_ttl":{"enabled":true},"_source":{"compress":true},"_routing":{"required":false,"path":"a"},
 "_analyzer":{"path":"a"},"_boost":{"name":"b","null_value":1.0},"date_detection":true,"dynamic_date_formats":["dateOptionalTime","yyyy/MM/dd HH:mm:ss Z||yyyy/MM/dd Z"],
 "dynamic_templates":[{"raw":{"match":"*","match_mapping_type":"string","mapping":{"type":"string","index":"analyzed","omit_norms":true,"fields":{"raw":{"type":"string","index":"not_analyzed","ignore_above":256,"doc_values":true}}}}}],
 "properties":{
 "a":{"type":"string","index_analyzer":"standard","search_analyzer":"simple","include_in_all":false,"index_options":"offsets","term_vector":"with_positions","position_offset_gap":10,"norms":{"enabled":false,"loading":"eager"}},
 "b":{"type":"string","index":"not_analyzed","omit_norms":true,"index_options":"docs","null_value":"none","boost":2.0,"norms":{"enabled":true}},
 "c":{"type":"string","index":"no","store":"yes"},
 "m":{"type":"multi_field","path":"just_name","fields":{"m":{"type":"string"},"exact":{"type":"string","index":"not_analyzed"}}},
 "d":{"type":"date","format":"dateOptionalTime","precision_step":8},"e":{"type":"date","format":"YYYY-MM-dd HH:mm:ss Z"},
 "g":{"type":"geo_point","lat_lon":true,"geohash":true,"geohash_prefix":true,"validate":true,"normalize_lat":true,"fielddata":{"format":"compressed"}},
 "h":{"type":"geo_shape","tree":"quadtree","precision":"1m","distance_error_pct":0.025},
 "i":{"type":"ip","precision_step":16},"l":{"type":"long","index":"not_analyzed","fielddata":{"format":"doc_values"}},"n":{"type":"nested","include_in_root":true,"properties":{"x":{"type":"integer"}}},
 "s":{"type":"completion","index_analyzer":"simple","search_analyzer":"simple","payloads":true,"preserve_separators":true},"t":{"type":"token_count","analyzer":"standard"},
 "z":{"type":"binary"},"similar":{"type":"string","similarity":"default"}}}`,
		`{"a":"words here","b":"x","c":"y","m":"z","d":"2014-05-06T07:08:09Z","e":"2014-05-06 07:08:09 +0200","g":"41.12,-71.34","h":{"type":"point","coordinates":[1,2]},"i":"10.0.0.1","l":1,"n":[{"x":1}],"s":"sug","t":"one two","z":"AAA=","similar":"s","new":"dynamic"}`},
	{"Elasticsearch 8", "8190000", `{"runtime":{"r":{"type":"long"}},"subobjects":true,"_source":{"mode":"synthetic"},"_data_stream_timestamp":{"enabled":true},"_field_names":{"enabled":true},"dynamic":"runtime",
 "dynamic_templates":[{"r":{"match_mapping_type":"string","runtime":{}}},{"two":{"match_mapping_type":["long","double"],"mapping":{"type":"keyword"}}}],
 "properties":{
 "flat":{"type":"flattened","depth_limit":5,"ignore_above":100},"wild":{"type":"wildcard","ignore_above":10,"null_value":"n"},"const":{"type":"constant_keyword","value":"v"},"constless":{"type":"constant_keyword"},
 "match":{"type":"match_only_text","fields":{"raw":{"type":"keyword","ignore_above":9}}},"big":{"type":"unsigned_long"},"ver":{"type":"version"},
 "dense":{"type":"dense_vector","dims":3,"index":true,"similarity":"cosine","index_options":{"type":"int8_hnsw","m":16}},"sparse":{"type":"sparse_vector"},"semantic":{"type":"semantic_text","inference_id":"e5"},
 "hist":{"type":"histogram"},"agg":{"type":"aggregate_metric_double","metrics":["min","max"],"default_metric":"max"},"point":{"type":"point"},"shape":{"type":"shape"},
 "hash":{"type":"keyword","fields":{"h":{"type":"murmur3"},"v":{"type":"version"},"d":{"type":"dense_vector","dims":2}}},"collated":{"type":"icu_collation_keyword","language":"de"},"knn":{"type":"knn_vector","dimension":2},
 "counter":{"type":"long","time_series_metric":"counter"},"host":{"type":"keyword","time_series_dimension":true,"script":{"source":"emit('x')"},"on_script_error":"continue"},
 "bool":{"type":"boolean","ignore_malformed":true},"rank":{"type":"rank_feature"},"ranks":{"type":"rank_features","positive_score_impact":false},"say":{"type":"search_as_you_type"},"range":{"type":"date_range","format":"strict_date_optional_time"},
 "nanos":{"type":"date_nanos"},"scaled":{"type":"scaled_float","scaling_factor":100,"coerce":true},"pass":{"type":"passthrough","priority":10,"properties":{"p":{"type":"keyword"}}},
 "alias":{"type":"alias","path":"wild"},"dangling":{"type":"alias","path":"dense"},"joined":{"type":"join","relations":{"q":"a"}},"perco":{"type":"percolator"},
 "obj":{"type":"object","subobjects":false,"synthetic_source_keep":"all","dynamic":"runtime","properties":{"k":{"type":"keyword","synthetic_source_keep":"arrays"}}}}}`,
		`{"flat":{"a":{"b":"c"}},"wild":"w","const":"v","constless":"x","match":"m","big":18446744073709551615,"ver":"1.2.3","dense":[1,2,3],"sparse":{"a":1.5},"semantic":{"text":"t","inference":{}},"hist":{"values":[1],"counts":[2]},
 "agg":{"min":1,"max":2},"point":"POINT (1 2)","shape":{"type":"point","coordinates":[1,2]},"hash":"h","collated":"ö","knn":[1,2],"counter":1,"host":"h","bool":true,"rank":1.5,"ranks":{"x":1},"say":"s","range":{"gte":"2020-01-01"},"nanos":"2020-01-01T00:00:00.123456789Z",
 "scaled":1.5,"pass":{"p":"q"},"joined":"q","obj":{"k":"v"},"unknown":5}`},
}

func TestARealTargetTakesWhatTheRulesMakeAndTheDocuments(t *testing.T) {
	targets(t, func(t *testing.T, c *target.Client, v target.Version) {
		for _, x := range everyType {
			t.Run(x.name, func(t *testing.T) { takes(t, c, v, x.created, x.mapping, x.document) })
		}
	})
}

func takes(t *testing.T, c *target.Client, v target.Version, created, mapping, document string) {
	const name = "rules-test"
	ctx := t.Context()
	r, err := objects.Ensure(ctx, c, v, []metadata.Wanted{{Name: name, Index: metadata.Index{
		Settings: map[string]string{
			"index.version.created": created, "index.number_of_shards": "1", "index.number_of_replicas": "0", "index.knn": "true", "index.codec": "best_compression",
			"index.analysis.analyzer.a.type": "custom", "index.analysis.analyzer.a.tokenizer": "g", "index.analysis.analyzer.a.filter.0": "standard", "index.analysis.analyzer.a.filter.1": "nGram",
			"index.analysis.analyzer.a.char_filter.0": "htmlStrip",
			"index.analysis.tokenizer.g.type":         "edgeNGram", "index.analysis.tokenizer.g.min_gram": "2", "index.analysis.tokenizer.g.max_gram": "7",
			"index.analysis.filter.n.type": "nGram", "index.analysis.filter.n.max_gram": "9", "index.similarity.default.type": "classic",
		},
		Mappings: []metadata.Mapping{{Type: "t", Body: json.RawMessage(mapping)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if status, answer, err := c.Do(ctx, http.MethodDelete, "/"+name, nil, nil); err != nil || status != http.StatusOK {
			t.Errorf("delete: %d %s, %v", status, answer, err)
		}
	}()
	body := `{"index":{"_index":"` + name + `","_id":"1"}}` + "\n" + strings.ReplaceAll(document, "\n", "") + "\n"
	sent, err := c.Send(ctx, []byte(body), 1)
	if err != nil || len(sent.Refused) > 0 {
		t.Errorf("document: %+v, %v", sent, err)
	}
	for _, ch := range r.Changes {
		t.Logf("%s: %s: %s", ch.Path, ch.Rule, ch.Detail)
	}
	if !slices.ContainsFunc(r.Changes, func(ch metadata.Change) bool { return ch.Rule == "unknown-setting" && ch.Path == "index.knn" }) {
		t.Error("a node without the k-NN plugin took index.knn, or it was not reported")
	}
}
