package extract

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// TestReadSaved_EveryGeneration reads documents of Kibana 5 to 8 and OpenSearch Dashboards.
func TestReadSaved_EveryGeneration(t *testing.T) {
	for _, c := range []struct{ name, id, kind, source, want string }{
		{"Kibana 5", "logs-*", "index-pattern", `{"title":"logs-*"}`, `{"id":"logs-*","type":"index-pattern","attributes":{"title":"logs-*"},"references":[],"migrationVersion":{}}`},
		{"Kibana 6", "search:s", "doc", `{"type":"search","search":{"title":"<s>","columns":["a"]}}`, `{"id":"s","type":"search","attributes":{"columns":["a"],"title":"<s>"},"references":[],"migrationVersion":{}}`},
		{
			"Kibana 7 in a space", "ops:dashboard:d", "", `{"type":"dashboard","namespace":"ops","dashboard":{"title":"d"},"migrationVersion":{"dashboard":"7.3.0"},"updated_at":"2026-11-01T00:00:00.000Z"}`,
			`{"id":"d","type":"dashboard","attributes":{"title":"d"},"references":[],"migrationVersion":{"dashboard":"7.3.0"},"updated_at":"2026-11-01T00:00:00.000Z"}`,
		},
		{
			"Kibana 8", "search:s", "", `{"type":"search","search":{"title":"s","hideChart":true},"references":[{"name":"n","type":"index-pattern","id":"p"}],"typeMigrationVersion":"8.0.0","coreMigrationVersion":"8.8.0","namespaces":["default"]}`,
			`{"id":"s","type":"search","attributes":{"title":"s"},"references":[{"name":"n","type":"index-pattern","id":"p"}],"migrationVersion":{"search":"7.9.3"}}`,
		},
		{"a version of a type that has none", "query:q", "", `{"type":"query","query":{"title":"q"},"migrationVersion":{"query":"7.16.0"}}`, `{"id":"q","type":"query","attributes":{"title":"q"},"references":[],"migrationVersion":{}}`},
		{"a type that is not imported", "lens:l", "", `{"type":"lens","lens":{}}`, ""},
		{"no type", "x", "", `{"a":1}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s, err := readSaved(c.id, c.kind, []byte(c.source))
			if err != nil || (s == nil) != (c.want == "") {
				t.Fatalf("%+v, %v", s, err)
			}
			if s == nil {
				return
			}
			if line, err := s.line(); err != nil || string(line) != c.want+"\n" {
				t.Errorf("%s, %v", line, err)
			}
		})
	}
	for _, source := range []string{``, `[]`, `{"type":"search"}`, `{"type":"search","search":1}`, `{"type":1}`} {
		if _, s, err := readSaved("x", "", []byte(source)); s != nil || !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", source, s, err)
		}
	}
}

func TestLater_ComparesNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"7.10.0", "7.9.3", true}, {"7.9.3", "7.9.3", false}, {"7.6.0", "7.10.0", false}, {"8", "7.9.3", true}, {"7.9", "7.9.3", false}, {"x", "7.9.3", true}, {"7.9.3.1", "7.9.3", true}} {
		if got := later(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %t", c.a, c.b, got)
		}
	}
}

func TestTenantOf_NamesOfTheSecurityPlugin(t *testing.T) {
	for name, want := range map[string]string{
		".kibana": "", ".kibana_1": "", ".kibana_8.8.0_001": "", ".kibana_analytics": "", ".kibana_-152937574_admintenant": "admintenant",
		".kibana_92668751_admin_2": "admin", ".opensearch_dashboards_92668751_admin_1": "admin",
	} {
		if got := tenantOf([]string{name}); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// FuzzReadSaved: whatever a document holds, there is an error, nothing, or a line of JSON.
func FuzzReadSaved(f *testing.F) {
	f.Add("search:s", "", `{"type":"search","search":{"title":"s","hideChart":true},"references":[{"name":"n"}],"typeMigrationVersion":"8.0.0"}`)
	f.Add("a", "index-pattern", `{"title":"a"}`)
	f.Add("a", "index-pattern", `null`)
	f.Fuzz(func(t *testing.T, id, kind, source string) {
		defer fuzzing.Bounded(t, len(id)+len(source))()
		_, s, err := readSaved(id, kind, []byte(source))
		if err != nil || s == nil {
			return
		}
		if _, err := (titles{}).rename(s); err != nil {
			t.Error(err)
		}
		if line, err := s.line(); err == nil && !json.Valid(line) {
			t.Errorf("%s", line)
		}
	})
}
