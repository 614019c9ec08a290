package plan

import (
	"encoding/json"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestRebuildsBySettings: settings and mapping decide how the sources of an index are rebuilt.
func TestRebuildsBySettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		mapping  string
		want     Rebuild
		asked    Rebuild // with --rebuild-sources, where that makes a difference
	}{
		{"stored", nil, `{}`, "", ""},
		{"disabled", nil, `{"_source":{"enabled":false}}`, "", RebuildFields},
		{"disabled by the mode of the mapping", nil, `{"_source":{"mode":"disabled"}}`, "", RebuildFields},
		{"disabled by setting", map[string]string{"index.mapping.source.mode": "disabled"}, `{}`, "", RebuildFields},
		{"filtered", nil, `{"_source":{"includes":["a"]}}`, "", RebuildFields},
		{"synthetic, filtered", map[string]string{"index.mode": "logsdb"}, `{"_source":{"excludes":["a"]}}`, "", RebuildSynthetic},
		{"a mode that is unknown, disabled", map[string]string{"index.mode": "holographic"}, `{"_source":{"enabled":false}}`, "", ""},
		{"synthetic by setting", map[string]string{"index.mapping.source.mode": "synthetic"}, `{}`, RebuildSynthetic, RebuildSynthetic},
		{"synthetic by mapping", nil, `{"_source":{"mode":"synthetic"}}`, RebuildSynthetic, RebuildSynthetic},
		{"logsdb that stores sources", map[string]string{"index.mode": "logsdb", "index.mapping.source.mode": "stored"}, `{}`, "", ""},
		{"a mode that is unknown", map[string]string{"index.mode": "holographic", "index.mapping.source.mode": "synthetic"}, `{}`, "", ""},
		{"columnar", map[string]string{"index.mode": "columnar"}, `{}`, RebuildColumnar, RebuildColumnar},
		{"columnar logs", map[string]string{"index.mode": "logsdb_columnar", "index.mapping.source.mode": "synthetic"}, `{}`, RebuildColumnar, RebuildColumnar},
		{"columnar, made when indexed", map[string]string{"index.mode": "columnar", "index.mapping.source.mode": "columnar_stored"}, `{}`, RebuildColumnarStored, RebuildColumnarStored},
		{"columnar with a source mode of later versions", map[string]string{"index.mode": "columnar", "index.mapping.source.mode": "holographic"}, `{}`, "", ""},
		{"derived", map[string]string{"index.derived_source.enabled": "true"}, `{}`, RebuildDerived, RebuildDerived},
		{"derived, switched off", map[string]string{"index.derived_source.enabled": "false"}, `{}`, "", ""},
		{"derived, a part of it", map[string]string{"index.derived_source.enabled": "true"}, `{"_source":{"excludes":["a"]}}`, "", ""},
		{"derived without an answer", map[string]string{"index.derived_source.enabled": "true"}, `{"_source":{"enabled":false}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &snapshot.Index{Settings: c.settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}
			if got := rebuilds(x, ""); got != c.want {
				t.Errorf("rebuilt as %q, want %q", got, c.want)
			}
			if got := rebuilds(x, RebuildFields); got != c.asked {
				t.Errorf("asked: rebuilt as %q, want %q", got, c.asked)
			}
		})
	}
}
