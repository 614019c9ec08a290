package plan

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestFiltersLeavePartsOutOfStoredForms(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		mapping  string
		want     doc.Lacking
	}{
		"nothing":                     {nil, `{"_source":{"includes":[],"excludes":[]}}`, doc.Lacking{}},
		"excludes":                    {nil, `{"_source":{"excludes":["a"]}}`, doc.Lacking{Source: true}},
		"includes, a single name":     {nil, `{"_source":{"includes":"a"}}`, doc.Lacking{Source: true}},
		"originals are filtered, too": {nil, `{"_source":{"excludes":["a"],"recovery_source_excludes":["a"]}}`, doc.Lacking{Source: true, Original: true}},
		"only originals are filtered": {nil, `{"_source":{"recovery_source_includes":["a"]}}`, doc.Lacking{Original: true}},
		"disabled: nothing is stored": {nil, `{"_source":{"enabled":false}}`, doc.Lacking{}},
		"vectors that k-NN derives":   {map[string]string{"index.knn": "true", "index.knn.derived_source.enabled": "true"}, `{}`, doc.Lacking{Source: true}},
		"a mode that is unknown":      {map[string]string{"index.mode": "holographic"}, `{}`, doc.Lacking{Source: true}},
		"vectors that 9.2 leaves out": {map[string]string{"index.version.created": "9035000"},
			`{"properties":{"v":{"type":"dense_vector"}}}`, doc.Lacking{Vectors: true}},
		"vectors that 9.2 stores": {map[string]string{"index.version.created": "9035000"},
			`{"properties":{"v":{"type":"dense_vector","index":false}}}`, doc.Lacking{}},
	} {
		created, _ := strconv.ParseInt(c.settings["index.version.created"], 10, 64) // 0: not set
		x := &snapshot.Index{Locator: snapshot.Locator{Created: created}, Settings: c.settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}
		if got := lacking(x); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestReducedSourcesAreFoundInMappingAndSettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		mapping  string
		says     string // "" when the source is whole
	}{
		{"whole", nil, `{"properties":{"a":{"type":"text"}}}`, ""},
		{"disabled", nil, `{"_source":{"enabled":false}}`, "disabled"},
		{"disabled as text", nil, `{"_source":{"enabled":"false"}}`, "disabled"},
		{"excludes", nil, `{"_source":{"excludes":["a.*"]}}`, "filtered"},
		{"empty lists", nil, `{"_source":{"includes":[],"excludes":[]}}`, ""},
		{"synthetic mapping", nil, `{"_source":{"mode":"synthetic"}}`, "synthetic"},
		{"synthetic setting", map[string]string{"index.mapping.source.mode": "synthetic"}, `{}`, "synthetic"},
		{"logsdb", map[string]string{"index.mode": "logsdb"}, `{}`, "logsdb"},
		{"logsdb with stored source", map[string]string{"index.mode": "logsdb", "index.mapping.source.mode": "stored"}, `{}`, ""},
		{"time series", map[string]string{"index.mode": "time_series"}, `{}`, "time_series"},
		{"time series with stored source", map[string]string{"index.mode": "time_series", "index.mapping.source.mode": "stored"}, `{}`, ""},
		{"columnar", map[string]string{"index.mode": "columnar"}, `{}`, "synthetic source (columnar)"},
		{"columnar logs", map[string]string{"index.mode": "logsdb_columnar"}, `{}`, "synthetic source (logsdb_columnar)"},
		{"columnar with stored source", map[string]string{"index.mode": "columnar", "index.mapping.source.mode": "stored"}, `{}`, "index mode columnar is unknown"},
		{"standard", map[string]string{"index.mode": "standard"}, `{}`, ""},
		{"lookup", map[string]string{"index.mode": "lookup"}, `{}`, ""},
		{"unknown mode", map[string]string{"index.mode": "holographic"}, `{}`, "index mode holographic is unknown"},
		{"unknown mode with stored source", map[string]string{"index.mode": "holographic", "index.mapping.source.mode": "stored"}, `{}`, "index mode holographic is unknown"},
		{"vectors of 9.2", map[string]string{"index.version.created": "9035000"}, `{"properties":{"v":{"type":"dense_vector"}}}`, "vectors"},
		{"vectors kept", map[string]string{"index.version.created": "9035000", "index.mapping.exclude_source_vectors": "false"}, `{"properties":{"v":{"type":"dense_vector"}}}`, ""},
		{"vectors that are not indexed", map[string]string{"index.version.created": "9035000"}, `{"properties":{"v":{"type":"dense_vector","index":false}}}`, ""},
		{"vectors of a synthetic source", map[string]string{"index.version.created": "9035000", "index.mode": "logsdb"}, `{"properties":{"v":{"type":"dense_vector"}}}`, "synthetic source (logsdb)"},
		{"vectors of 8", map[string]string{"index.version.created": "8537000"}, `{"properties":{"v":{"type":"dense_vector"}}}`, ""},
		{"derived", map[string]string{"index.derived_source.enabled": "true"}, `{}`, "derived"},
	} {
		created, _ := strconv.ParseInt(c.settings["index.version.created"], 10, 64) // 0: not set
		x := &snapshot.Index{Locator: snapshot.Locator{Created: created}, Settings: c.settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}
		got := ReducedSource(x)
		if (c.says == "") != (got == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", c.name, got, c.says)
		}
	}
}
