package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/testing/cluster"
)

// provoked is a document that the target refuses, and the request that its remedy asks for.
type provoked struct {
	class  string // and the name of the index, with - for _
	create string // body of the index; "": it is made otherwise
	source string
	fix    []string // method, path, body; none: the remedy is no setting
}

func provocations() []provoked {
	mapping := func(properties string) string { return `{"mappings":{"properties":{` + properties + `}}}` }
	limit := func(name string, low int, rest string) string {
		return fmt.Sprintf(`{"settings":{"index.mapping.%s.limit":%d}%s}`, name, low, rest)
	}
	raise := func(name string) []string {
		return []string{"PUT", "/INDEX/_settings", `{"index.mapping.` + name + `.limit":100}`}
	}
	malformed := func(typ string) []string {
		return []string{"PUT", "/INDEX/_mapping", `{"properties":{"a":{"type":"` + typ + `","ignore_malformed":true}}}`}
	}
	without := []string{"PUT", "/INDEX/_settings", `{"index.final_pipeline":"_none"}`}
	return []provoked{
		{"strict_mapping", `{"mappings":{"dynamic":"strict"}}`, `{"a":1}`, []string{"PUT", "/INDEX/_mapping", `{"dynamic":true}`}},
		{"duplicate_key", `{}`, `{"a":1,"a":2}`, nil},
		{"total_fields_limit", limit("total_fields", 1, ""), `{"a":1,"b":2}`, raise("total_fields")},
		{"depth_limit", limit("depth", 2, ""), `{"a":{"b":{"c":{"d":1}}}}`, raise("depth")},
		{"nested_fields_limit", limit("nested_fields", 0, `,"mappings":{"dynamic_templates":[{"n":{"match_mapping_type":"object","mapping":{"type":"nested"}}}]}`),
			`{"a":{"b":1}}`, raise("nested_fields")},
		{"nested_objects_limit", limit("nested_objects", 1, `,"mappings":{"properties":{"a":{"type":"nested"}}}`), `{"a":[{"b":1},{"b":2}]}`, raise("nested_objects")},
		{"field_name_length_limit", limit("field_name_length", 5, ""), `{"abcdefgh":1}`, raise("field_name_length")},
		{"immense_term", mapping(`"a":{"type":"keyword"}`), `{"a":"` + strings.Repeat("x", 40_000) + `"}`,
			[]string{"PUT", "/INDEX/_mapping", `{"properties":{"a":{"type":"keyword","ignore_above":8191}}}`}},
		{"stream_timestamp", "", `{"a":1}`, nil},
		{"no_write_index", "", `{"a":1}`, []string{"POST", "/_aliases", `{"actions":[{"add":{"index":"INDEX-1","alias":"INDEX","is_write_index":true}}]}`}},
		{"routing_missing", `{"mappings":{"_routing":{"required":true}}}`, `{"a":1}`, nil},
		{"join_routing", mapping(`"a":{"type":"join","relations":{"p":"c"}}`), `{"a":{"name":"c","parent":"1"}}`, nil},
		{"pipeline_missing", `{"settings":{"index.final_pipeline":"nowhere"}}`, `{"a":1}`, without},
		{"pipeline_failure", `{"settings":{"index.final_pipeline":"fails"}}`, `{"a":1}`, without},
		{"metadata_field", `{}`, `{"_id":"x"}`, nil},
		{"field_name", `{}`, `{"":1}`, nil},
		{"type_conflict", `{}`, `{"a":[{"d":1},{"d":1.5}]}`, nil},
		{"object_expected", mapping(`"a":{"properties":{"b":{"type":"long"}}}`), `{"a":1}`, nil},
		{"value_expected", mapping(`"a":{"type":"keyword"}`), `{"a":{"b":1}}`, nil},
		{"number_range", mapping(`"a":{"type":"byte"}`), `{"a":300}`, malformed("byte")},
		{"date_format", mapping(`"a":{"type":"date"}`), `{"a":"yesterday"}`, malformed("date")},
		{"number_format", mapping(`"a":{"type":"integer"}`), `{"a":"many"}`, malformed("integer")},
		{"boolean_format", mapping(`"a":{"type":"boolean"}`), `{"a":"maybe"}`, nil},
		{"ip_format", mapping(`"a":{"type":"ip"}`), `{"a":"here"}`, malformed("ip")},
		{"geo_format", mapping(`"a":{"type":"geo_point"}`), `{"a":"no place!"}`, malformed("geo_point")},
		{"value_format", mapping(`"a":{"type":"integer_range"}`), `{"a":{"gte":"x"}}`, nil},
		{"json", `{}`, `{"a":tru}`, nil},
	}
}

// TestClassesOfFailuresAndTheirRemedies has a node refuse a document for each class that it can be made to, and applies
// the remedies that are settings.
func TestClassesOfFailuresAndTheirRemedies(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/_index_template/streams", json.RawMessage(`{"index_patterns":["stream-timestamp"],"data_stream":{}}`))
	call(t, n, "PUT", "/_data_stream/stream-timestamp", nil)
	t.Cleanup(func() {
		_, err := n.Send(context.Background(), "DELETE", "/_data_stream/stream-timestamp", "", nil)
		must(t, err)
	})
	for _, i := range []string{"1", "2"} {
		call(t, n, "PUT", "/no-write-index-"+i, json.RawMessage(`{"aliases":{"no-write-index":{}}}`))
	}
	call(t, n, "PUT", "/_ingest/pipeline/fails", json.RawMessage(`{"processors":[{"fail":{"message":"no"}}]}`))
	all, dir := provocations(), t.TempDir()
	w, err := failed.Open(dir, "w", failed.Form{})
	must(t, err)
	for i, p := range all {
		index := strings.ReplaceAll(p.class, "_", "-")
		if p.create != "" {
			call(t, n, "PUT", "/"+index, json.RawMessage(p.create))
		}
		must(t, w.Record(t.Context(), []doc.Failure{{Index: index, ID: "1", Ordinal: int64(i), Reason: "before", Status: 400, Source: []byte(p.source)}}))
	}
	must(t, errors.Join(w.Sync(t.Context()), w.Close()))

	// In one request, a pipeline that is missing fails the documents of the next, too.
	redrive := []string{"--target-host", n.URL, "--failed-documents", dir, "--documents-per-bulk-request", "1"}
	r := redrives(t, 6, redrive...)
	if r.Indexed != 0 || r.Failed != int64(len(all)) {
		t.Errorf("%d arrived, %d failed of %d", r.Indexed, r.Failed, len(all))
	}
	classes, remedies := map[string]string{}, map[string]string{}
	for _, c := range r.Classes {
		classes[c.Index], remedies[c.Index] = c.Class, c.Remedy
		t.Logf("%s: %s: %.200s", c.Class, c.Reason, c.Example)
	}
	var shown struct {
		Groups []struct{ Index, Class, Remedy string }
	}
	must(t, json.Unmarshal([]byte(Run(t, "rfsctl", "failures", "--failed-documents", dir, "--output", "json").Stdout), &shown))
	if len(shown.Groups) != len(all) {
		t.Errorf("rfsctl failures shows %d groups of %d", len(shown.Groups), len(all))
	}
	for _, g := range shown.Groups {
		if g.Class != classes[g.Index] || g.Remedy != remedies[g.Index] {
			t.Errorf("rfsctl failures: %+v, rfsd redrive has %s: %s", g, classes[g.Index], remedies[g.Index])
		}
	}
	fixed := 0
	for _, p := range all {
		index := strings.ReplaceAll(p.class, "_", "-")
		if classes[index] != p.class {
			t.Errorf("%s: class %q", p.class, classes[index])
		}
		if p.fix == nil {
			continue
		}
		fixed++
		if !strings.Contains(remedies[index], index) {
			t.Errorf("%s: the remedy does not name the index: %s", p.class, remedies[index])
		}
		call(t, n, p.fix[0], strings.ReplaceAll(p.fix[1], "INDEX", index), json.RawMessage(strings.ReplaceAll(p.fix[2], "INDEX", index)))
	}
	r = redrives(t, 6, redrive...)
	if r.Indexed != int64(fixed) || r.Failed != int64(len(all)-fixed) {
		t.Errorf("after %d remedies %d arrived, %d failed: %+v", fixed, r.Indexed, r.Failed, r.Classes)
	}
	t.Logf("%d classes, %d remedies applied", len(all), fixed)
}
