package metadata

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

var (
	os219 = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	os13  = target.Version{Distribution: "opensearch", Number: "1.3.14", Major: 1, Minor: 3}
)

func tree(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}

func TestFieldsBecomeWhatTheTargetTakes(t *testing.T) {
	for _, c := range []struct{ name, in, want, rule string }{
		{"analyzed string", `{"type":"string","index_analyzer":"a","omit_norms":true,"ignore_above":9}`, `{"type":"text","analyzer":"a","norms":false}`, "string-to-text"},
		{"exact string", `{"type":"string","index":"not_analyzed","norms":{"enabled":false},"ignore_above":9}`, `{"type":"keyword","index":true,"ignore_above":9}`, "string-to-text"},
		{"string that is not indexed", `{"type":"string","index":"no"}`, `{"type":"keyword","index":false}`, "string-to-text"},
		{"string with a subfield", `{"type":"string","fields":{"raw":{"type":"string","index":"not_analyzed"}}}`, `{"type":"text","fields":{"raw":{"type":"keyword","index":true}}}`, "string-to-text"},
		{"multi_field", `{"type":"multi_field","fields":{"f":{"type":"string"},"raw":{"type":"string","index":"not_analyzed"}}}`, `{"type":"text","fields":{"raw":{"type":"keyword","index":true}}}`, "multi-field"},
		{"options that are gone", `{"type":"long","include_in_all":false,"precision_step":4,"store":"yes","doc_values":"true"}`, `{"type":"long","store":true,"doc_values":true}`, "old-option"},
		{"options of doc values", `{"type":"keyword","doc_values":{"multi_value":false,"nullability":true}}`, `{"type":"keyword"}`, "old-option"},
		{"geo point", `{"type":"geo_point","lat_lon":true,"geohash":true,"validate":true}`, `{"type":"geo_point"}`, "old-option"},
		{"flattened", `{"type":"flattened","depth_limit":3}`, `{"type":"flat_object"}`, "flattened"},
		{"vector", `{"type":"dense_vector","dims":3,"index":true,"similarity":"cosine"}`, `{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"lucene","space_type":"cosinesimil"}}`, "dense-vector"},
		{"version", `{"type":"version"}`, `{"type":"keyword"}`, "version-type"},
		{"wildcard stays", `{"type":"wildcard","ignore_above":3}`, `{"type":"wildcard","ignore_above":3}`, ""},
		{"metrics", `{"type":"double","time_series_metric":"gauge"}`, `{"type":"double"}`, "time-series"},
		{"date formats", `{"type":"date","format":"yyyy||dateOptionalTime||8uuuu-MM"}`, `{"type":"date","format":"yyyy||date_optional_time||uuuu-MM"}`, "date-format"},
		{"alias keeps its path", `{"type":"alias","path":"g"}`, `{"type":"alias","path":"g"}`, ""},
		{"similarity", `{"type":"text","similarity":"classic"}`, `{"type":"text"}`, "legacy-similarity"},
		{"object below", `{"dynamic":"runtime","properties":{"a":{"type":"string"}}}`, `{"dynamic":"true","properties":{"a":{"type":"text"}}}`, "dynamic-runtime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, changes, err := Convert(os219, Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"t", json.RawMessage(`{"properties":{"f":` + c.in + `}}`)}}}})
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, body)["mappings"].(map[string]any)["properties"].(map[string]any)["f"]
			if want := tree(t, []byte(c.want)); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("got %v, want %v", got, want)
			}
			if c.rule == "" && len(changes) > 0 || c.rule != "" && !slices.ContainsFunc(changes, func(x Change) bool { return x.Rule == c.rule }) {
				t.Errorf("reported %+v, want rule %q", changes, c.rule)
			}
		})
	}
}

func TestOlderTargetsGetSimplerTypes(t *testing.T) {
	in := json.RawMessage(`{"properties":{"a":{"type":"flattened"},"b":{"type":"wildcard"},"c":{"type":"match_only_text"},"d":{"type":"unsigned_long"}}}`)
	body, _, err := Convert(os13, Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"_doc", in}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, []byte(`{"settings":{},"mappings":{"properties":{"a":{"type":"object","enabled":false},"b":{"type":"keyword"},"c":{"type":"text"},"d":{"type":"double"}}}}`))
	if got := tree(t, body); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s", body)
	}
}

func TestTheTopOfAMappingAndItsTypes(t *testing.T) {
	index := Index{Name: "s", Mappings: []Mapping{
		{"_default_", json.RawMessage(`{"_all":{"enabled":false}}`)},
		{"a", json.RawMessage(`{"_all":{"enabled":false},"_parent":{"type":"p"},"_ttl":{"enabled":true},"_routing":{"required":true,"path":"x"},"_source":{"compress":true},"properties":{"x":{"type":"long"},"y":{"type":"long"}}}`)},
		{"b", json.RawMessage(`{"properties":{"x":{"type":"double"},"z":{"type":"string"}}}`)},
	}}
	for _, c := range []struct{ typ, want string }{
		{"", `{"properties":{"x":{"type":"long"},"y":{"type":"long"},"z":{"type":"text"}}}`},
		{"a", `{"_routing":{"required":true},"properties":{"x":{"type":"long"},"y":{"type":"long"}}}`},
		{"b", `{"properties":{"x":{"type":"double"},"z":{"type":"text"}}}`},
	} {
		body, changes, err := Convert(os219, Wanted{Name: "s", Index: index, Type: c.typ})
		if err != nil {
			t.Fatal(err)
		}
		if got := tree(t, body)["mappings"]; !reflect.DeepEqual(got, any(tree(t, []byte(c.want)))) {
			t.Errorf("type %q: %v", c.typ, got)
		}
		conflict := slices.ContainsFunc(changes, func(x Change) bool { return x.Rule == "type-union" && x.Path == "properties.x.type" })
		if conflict != (c.typ == "") {
			t.Errorf("type %q: %+v", c.typ, changes)
		}
	}
	if _, _, err := Convert(os219, Wanted{Name: "s", Index: index, Type: "absent"}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("absent type: %v", err)
	}
	index.Mappings[1].Body = json.RawMessage(`[`)
	if _, _, err := Convert(os219, Wanted{Name: "s", Index: index}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("broken mapping: %v", err)
	}
}

func TestSettingsKeepWhatTheIndexMeansAndNothingOfItsPast(t *testing.T) {
	body, changes, err := Convert(os219, Wanted{Name: "i", Index: Index{Settings: map[string]string{
		"index.number_of_shards": "3", "index.uuid": "x", "index.version.created": "1", "index.codec": "best_compression", "index.blocks.write": "true", "index.lifecycle.name": "hot",
		"index.analysis.analyzer.a.type": "custom", "index.analysis.analyzer.a.tokenizer": "nGram",
		"index.analysis.analyzer.a.filter.0": "standard", "index.analysis.analyzer.a.filter.1": "lowercase", "index.analysis.analyzer.a.filter.2": "f",
		"index.analysis.filter.f.type": "edgeNGram", "index.analysis.filter.g.type": "nGram", "index.analysis.filter.g.min_gram": "2", "index.analysis.filter.g.max_gram": "9",
		"index.analysis.analyzer.1.type": "keyword", "index.similarity.default.type": "classic", "index.query.default_field": "_all", "index.mapping.total_fields.limit": "5000",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, []byte(`{"index.number_of_shards":"3","index.codec":"best_compression","index.analysis.analyzer.a.type":"custom","index.analysis.analyzer.a.tokenizer":"ngram",
 "index.analysis.analyzer.a.filter":["lowercase","f"],"index.analysis.filter.f.type":"edge_ngram","index.analysis.filter.g.type":"ngram","index.analysis.filter.g.min_gram":"2",
 "index.analysis.filter.g.max_gram":"9","index.analysis.analyzer.1.type":"keyword","index.mapping.total_fields.limit":"5000","index.max_ngram_diff":"7"}`))
	if got := tree(t, body)["settings"]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("got %v", got)
	}
	for _, rule := range []string{"setting", "analysis-name", "standard-filter", "gram-limit", "legacy-similarity", "all-field"} {
		if !slices.ContainsFunc(changes, func(x Change) bool { return x.Rule == rule }) {
			t.Errorf("%s is not reported", rule)
		}
	}
}

func TestModesThatIgnoreMalformedValues(t *testing.T) {
	const setting = "index.mapping.ignore_malformed"
	for _, c := range []struct {
		name, mode, set string
		without         []string
		want            any
	}{
		{"logsdb", "logsdb", "", nil, "true"},
		{"logsdb in columns", "logsdb_columnar", "", nil, "true"},
		{"a setting of the index", "logsdb", "false", nil, "false"},
		{"another mode", "time_series", "", nil, nil},
		{"no mode", "", "", nil, nil},
		{"switched off", "logsdb", "", []string{"logsdb"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := Wanted{Name: "i", Index: Index{Settings: map[string]string{"index.number_of_shards": "1"}}}
			if c.mode != "" {
				w.Index.Settings["index.mode"] = c.mode
			}
			if c.set != "" {
				w.Index.Settings[setting] = c.set
			}
			w.Overrides.Without = c.without
			body, changes, err := Convert(os219, w)
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, body)["settings"].(map[string]any)[setting]; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			if told := slices.ContainsFunc(changes, func(x Change) bool { return x.Rule == "logsdb" }); told != (c.set == "" && c.want != nil) {
				t.Errorf("reported: %v", told)
			}
		})
	}
}

func TestBooleansThatIgnoreMalformedValues(t *testing.T) {
	const mapping = `{"properties":{"b":{"type":"boolean","ignore_malformed":true},"o":{"properties":{"c":{"type":"boolean"},"k":{"type":"keyword","fields":{"b":{"type":"boolean","ignore_malformed":"true"},"n":{"type":"long"}}}}},
 "d":{"type":"date"},"n":{"type":"long","ignore_malformed":true}}}`
	for _, c := range []struct {
		name, mapping, set string
		without            []string
		want               any
		told               bool
		date               any
	}{
		{"a field that ignores", mapping, "", nil, "true", true, false},
		{"the index refuses", mapping, "false", nil, "true", true, false},
		{"the index ignores", mapping, "true", nil, "true", false, nil},
		{"switched off", mapping, "", []string{"malformed-boolean"}, nil, false, nil},
		{"no such field", `{"properties":{"b":{"type":"boolean"},"d":{"type":"date"}}}`, "", nil, nil, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := Wanted{Name: "i", Index: Index{Settings: map[string]string{"index.number_of_shards": "1"}, Mappings: []Mapping{{"_doc", json.RawMessage(c.mapping)}}}}
			if c.set != "" {
				w.Index.Settings[ignoreMalformed] = c.set
			}
			w.Overrides.Without = c.without
			body, changes, err := Convert(os219, w)
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, body)
			if v := got["settings"].(map[string]any)[ignoreMalformed]; v != c.want {
				t.Errorf("%v, want %v", v, c.want)
			}
			properties := Part(Part(got, "mappings"), "properties")
			if v := Part(properties, "d")["ignore_malformed"]; v != c.date {
				t.Errorf("a date: %v, want %v", v, c.date)
			}
			if n := Part(properties, "n"); c.told && n["ignore_malformed"] != true {
				t.Errorf("a number that ignores: %v", n)
			}
			told := slices.ContainsFunc(changes, func(x Change) bool {
				return x.Rule == "malformed-boolean" && strings.Contains(x.Detail, "b, o.k.b:")
			})
			if told != c.told {
				t.Errorf("reported: %v", changes)
			}
		})
	}
}

func TestTemplatesAndAliases(t *testing.T) {
	body, _, err := Convert(os219, Wanted{Name: "i", Index: Index{
		Mappings: []Mapping{{"_doc", json.RawMessage(`{"dynamic_templates":[{"s":{"match_mapping_type":"string","mapping":{"index":"not_analyzed"}}},
 {"r":{"match":"*","runtime":{}}},{"m":{"match_mapping_type":["long","double"],"mapping":{"type":"keyword"}}}]}`)}},
		Aliases: json.RawMessage(`{"x":{"filter":{"term":{"a":1}},"index_routing":"1","is_write_index":true,"secret":1},"i":{},"hidden":{"filter":"REZMAA=="},"plain":{"filter":null}}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, []byte(`{"settings":{},"mappings":{"dynamic_templates":[{"s":{"match_mapping_type":"string","mapping":{"type":"keyword","index":true}}},
 {"m_long":{"match_mapping_type":"long","mapping":{"type":"keyword"}}},{"m_double":{"match_mapping_type":"double","mapping":{"type":"keyword"}}}]},
 "aliases":{"x":{"filter":{"term":{"a":1}},"index_routing":"1","is_write_index":true},"plain":{}}}`))
	if got := tree(t, body); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s", body)
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte(`{"_all":{"enabled":false},"properties":{"a":{"type":"string","fields":{"raw":{"type":"string","index":"not_analyzed"}}}}}`), []byte(`{"x":{"filter":{}}}`))
	f.Add([]byte(`{"dynamic_templates":[{"a":{"mapping":{"type":"multi_field","fields":{}}}}],"properties":{"v":{"type":"dense_vector","dims":2}}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, mapping, aliases []byte) {
		defer fuzzing.Bounded(t, len(mapping)+len(aliases))()
		body, _, err := Convert(os219, Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"t", mapping}}, Aliases: aliases}})
		if err == nil && !json.Valid(body) {
			t.Fatalf("no JSON: %s", body)
		}
	})
}
