package objects_test

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/objects"
)

func TestWhatTheTargetAddsIsToldAndOtherSpellingsAreNot(t *testing.T) {
	const asked = `{"settings":{"index.number_of_shards":"2","index.number_of_replicas":"0","index.analysis.filter.f.stopwords":["a","b"]},
 "mappings":{"dynamic":"strict","properties":{"a":{"type":"text","norms":false},"b":{"type":"keyword","index":true},"o":{"properties":{"x":{"type":"long"}}},"n":{"type":"scaled_float","scaling_factor":100}}},
 "aliases":{"r":{"routing":"1"},"f":{"filter":{"term":{"a":1}}}}}`
	for _, c := range []struct {
		name, answer string
		want         []string // paths
	}{
		{"as asked", `{"i":{"aliases":{"r":{"index_routing":"1","search_routing":"1"},"f":{"filter":{"term":{"a":1}}}},
 "mappings":{"dynamic":"strict","properties":{"a":{"type":"text","norms":false},"b":{"type":"keyword"},"n":{"type":"scaled_float","scaling_factor":100.0},"o":{"properties":{"x":{"type":"long"}}}}},
 "settings":{"index":{"number_of_shards":"2","number_of_replicas":0,"uuid":"u","creation_date":"1","provided_name":"i","version":{"created":"136"},"replication":{"type":"DOCUMENT"},"analysis":{"filter":{"f":{"stopwords":["a","b"]}}}}}}}`, nil},
		{"templates of the target", `{"i":{"aliases":{"r":{"index_routing":"2","search_routing":"1"},"more":{}},
 "mappings":{"dynamic":"true","_meta":{"by":"t"},"properties":{"a":{"type":"text"},"b":{"type":"keyword","ignore_above":9},"o":{"properties":{"x":{"type":"integer"},"y":{"type":"long"}}},"n":{"type":"scaled_float","scaling_factor":100.0},"z":{"type":"ip"}}},
 "settings":{"index":{"number_of_shards":"2","number_of_replicas":"1","default_pipeline":"p"}}}}`,
			[]string{"_meta", "aliases.f", "aliases.more", "aliases.r", "dynamic", "index.analysis.filter.f.stopwords.0", "index.analysis.filter.f.stopwords.1", "index.default_pipeline", "index.number_of_replicas",
				"properties.a.norms", "properties.b.ignore_above", "properties.o.properties.x.type", "properties.o.properties.y", "properties.z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := objects.Differences([]byte(asked), []byte(c.answer))
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range found {
				paths = append(paths, f.Path)
			}
			slices.Sort(paths)
			if !slices.Equal(paths, c.want) {
				t.Errorf("%+v\n%v", found, paths)
			}
		})
	}
	const dotted = `{"mappings":{"properties":{"a.b":{"type":"long"},"a.c.d":{"type":"keyword","fields":{"t":{"type":"text"}}},"o":{"properties":{"x.y":{"type":"ip"},"x":{"properties":{"z":{"type":"date"}}}}},"plain":{"type":"keyword"}}}}`
	for answer, want := range map[string][]string{
		`{"i":{"mappings":{"properties":{"a":{"properties":{"b":{"type":"long"},"c":{"properties":{"d":{"type":"keyword","fields":{"t":{"type":"text"}}}}}}},"o":{"properties":{"x":{"properties":{"y":{"type":"ip"},"z":{"type":"date"}}}}},"plain":{"type":"keyword"}}}}}`: nil,
		`{"i":{"mappings":{"properties":{"a":{"properties":{"b":{"type":"integer"}}},"o":{"properties":{"x":{"properties":{"y":{"type":"ip"}}}}},"plain":{"type":"keyword"}}}}}`:                                                                                             {"properties.a.properties.b.type", "properties.a.properties.c", "properties.o.properties.x.properties.z"},
	} {
		found, err := objects.Differences([]byte(dotted), []byte(answer))
		var paths []string
		for _, f := range found {
			paths = append(paths, f.Path)
		}
		if slices.Sort(paths); err != nil || !slices.Equal(paths, want) {
			t.Errorf("names with dots: %+v, %v, want %v", found, err, want)
		}
	}
	for _, bad := range []string{`[]`, `{}`, `{"a":{},"b":{}}`} {
		if _, err := objects.Differences([]byte(asked), []byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
