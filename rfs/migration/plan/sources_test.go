package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestSourcesAreNamedBeforeTheRun(t *testing.T) {
	type settings = map[string]string
	for _, c := range []struct {
		name     string
		settings settings
		mapping  string
		state    SourceState
		says     string // of its one line
		remedy   string // a part of it; "" for none
	}{
		{"stored", nil, `{"properties":{"a":{"type":"text"}}}`, SourcesStored, "stored", ""},
		{"rebuilt whole", settings{"index.mode": "logsdb"}, `{"properties":{"a":{"type":"keyword"},"b":{"properties":{"c":{"type":"long"}}}}}`,
			SourcesRebuilt, "synthetic source (logsdb); rebuilt as the cluster answers it: 2 fields exact", ""},
		{"types of modules", settings{"index.mode": "logsdb"}, `{"properties":{"a":{"type":"keyword"},"m":{"type":"match_only_text"}}}`,
			SourcesRebuilt, "synthetic source (logsdb); rebuilt as the cluster answers it: 2 fields exact (1 by the source code of Elasticsearch only)", ""},
		{"rebuilt but for a field", settings{"index.mapping.source.mode": "synthetic"}, `{"properties":{"a":{"type":"keyword"},"h":{"type":"holographic"}}}`,
			SourcesRebuilt, "source mode synthetic; rebuilt as the cluster answers it: 1 fields exact, lost: h (holographic)", "no_source"},
		{"derived", settings{"index.derived_source.enabled": "true"}, `{"properties":{"a":{"type":"keyword"},"k":{"type":"keyword","ignore_above":9}}}`,
			SourcesRebuilt, "derived source: true; rebuilt as the cluster answers it: 1 fields exact, lost: k (keyword)", "no_source"},
		{"a mapping that cannot be read", settings{"index.mode": "logsdb"}, `{"properties":[]}`, SourcesMissing, "not rebuilt: ", "--index-exclude"},
		{"filtered", nil, `{"_source":{"excludes":["a"]}}`, SourcesReduced, "_source is filtered (includes or excludes)", "--accept-reduced-sources"},
		{"synthetic and filtered", settings{"index.mode": "logsdb"}, `{"_source":{"excludes":["a"]}}`, SourcesMissing, "_source is filtered", "--index-exclude"},
		{"disabled", nil, `{"_source":{"enabled":false}}`, SourcesMissing, "_source is disabled", "_recovery_source"},
		{"disabled by setting", settings{"index.mapping.source.mode": "disabled"}, `{}`, SourcesMissing, "source mode disabled", "_recovery_source"},
		{"columnar", settings{"index.mode": "columnar"}, `{"properties":{"a":{"type":"keyword"},"n":{"type":"long"}}}`,
			SourcesRebuilt, "synthetic source (columnar); rebuilt as the cluster answers it: 2 fields exact", ""},
		{"columnar that stores sources", settings{"index.mode": "columnar", "index.mapping.source.mode": "stored"}, `{}`, SourcesUnknown, "columnar is unknown", "rfsd verify"},
		{"columnar logs, synthetic", settings{"index.mode": "logsdb_columnar", "index.mapping.source.mode": "synthetic"}, `{"properties":{"a":{"type":"keyword"},"n":{"type":"long"}}}`,
			SourcesRebuilt, "source mode synthetic; rebuilt as the cluster answers it: 2 fields exact", ""},
		{"a mode to come", settings{"index.mode": "holographic"}, `{}`, SourcesUnknown, "index mode holographic is unknown", "rfsd verify"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &snapshot.Index{Settings: c.settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}
			got := SourcesOf(x, "")
			if got.State != c.state || !strings.Contains(got.String(), c.says) || (c.remedy == "") != (got.Remedy == "") || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("%s: %s (%s)", got.State, got, got.Remedy)
			}
			if got.State == SourcesRebuilt && (len(got.Fields) != 2 || got.Fields[0] != (rebuild.FieldState{Field: "a", Type: "keyword", State: rebuild.Exact})) {
				t.Errorf("%+v", got.Fields)
			}
		})
	}
}

// TestSourcesThatAreRebuiltOnRequest: --rebuild-sources is named with what it would do, and what it does is named when it is
// given.
func TestSourcesThatAreRebuiltOnRequest(t *testing.T) {
	const fields = `"properties":{"a":{"type":"keyword"},"s":{"type":"long","store":true},"t":{"type":"text"}}`
	for _, c := range []struct {
		name     string
		settings map[string]string
		mappings map[string]string
		asked    Rebuild
		state    SourceState
		says     string // its one line
		remedy   string // a part of it
	}{
		{"not asked", nil, map[string]string{"_doc": `{"_source":{"enabled":false},` + fields + `}`}, "", SourcesMissing,
			"_source is disabled; --rebuild-sources rebuilds: 1 fields exact, 1 in normal form, lost: t (text)", "--rebuild-sources sends"},
		{"asked", nil, map[string]string{"_doc": `{"_source":{"enabled":false},` + fields + `}`}, RebuildFields, SourcesRebuilt,
			"_source is disabled; rebuilt from stored fields and doc values: 1 fields exact, 1 in normal form, lost: t (text)", "count as reduced"},
		{"asked for text, too", nil, map[string]string{"_doc": `{"_source":{"enabled":false},` + fields + `}`}, RebuildTerms, SourcesRebuilt,
			"_source is disabled; rebuilt from stored fields and doc values: 1 fields exact, 1 in normal form, 1 approximate (text out of its terms)", "approximate text is the output of its analyzer"},
		{"a filter, not asked", nil, map[string]string{"_doc": `{"_source":{"excludes":["a"]},` + fields + `}`}, "", SourcesReduced,
			"_source is filtered (includes or excludes); --rebuild-sources rebuilds: 0 fields exact, 1 in normal form", "--rebuild-sources sends"},
		{"one type of two", nil, map[string]string{"_default_": `{}`, "u": `{"_source":{"enabled":false},` + fields + `}`, "v": `{` + fields + `}`}, RebuildFields, SourcesRebuilt,
			"_source is disabled; rebuilt from stored fields and doc values: 1 fields exact, 1 in normal form, lost: u/t (text)", "count as reduced"},
		{"synthetic and filtered", map[string]string{"index.mode": "logsdb"}, map[string]string{"_doc": `{"_source":{"excludes":["a"]},` + fields + `}`}, RebuildFields, SourcesRebuilt,
			"_source is filtered (includes or excludes); synthetic source (logsdb); rebuilt as the cluster answers it: 3 fields exact", ""},
		{"a mapping that cannot be read", nil, map[string]string{"_doc": `{"_source":{"enabled":false},"properties":[]}`}, RebuildFields, SourcesMissing,
			"_source is disabled; not rebuilt: ", "--index-exclude"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &snapshot.Index{Settings: c.settings}
			for _, name := range slices.Sorted(maps.Keys(c.mappings)) {
				x.Mappings = append(x.Mappings, snapshot.Mapping{Type: name, Body: json.RawMessage(c.mappings[name])})
			}
			got := SourcesOf(x, c.asked)
			if got.State != c.state || !strings.HasPrefix(got.String(), c.says) || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("%s: %s (%s)", got.State, got, got.Remedy)
			}
		})
	}
}

func TestManyLostFieldsAreCounted(t *testing.T) {
	s := Sources{State: SourcesRebuilt, Reason: "because"}
	for range maxLost + 3 {
		s.Fields = append(s.Fields, rebuild.FieldState{Field: "f", Type: "t", State: rebuild.Lost})
	}
	if got := s.String(); strings.Count(got, "f (t)") != maxLost || !strings.HasSuffix(got, ", 3 more") {
		t.Errorf("%s", got)
	}
}
