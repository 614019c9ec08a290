package objects_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// known is a target that knows some paths.
type known map[string]string

func (a known) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if b, ok := a[path]; ok {
		return 200, []byte(b), nil
	}
	return 400, []byte(`{"error":"no handler found for uri [` + path + `] and method [GET]"}`), nil
}

func TestAStreamIsWrittenOnlyWhereItsTemplateIsAndNothingRollsItOver(t *testing.T) {
	const templates = `{"index_templates":[{"name":"t","index_template":{"index_patterns":["logs*"],"priority":5,"data_stream":{}}},{"name":"u","index_template":{"index_patterns":["logs-plain"],"priority":9}}]}`
	policies := func(action, patterns string) string {
		return `{"policies":[{"_id":"p","policy":{"states":[{"actions":[{"` + action + `":{}}]}],"ism_template":` + patterns + `}}]}`
	}
	for _, c := range []struct{ name, stream, policies, explain, refused string }{
		{"no ISM", "logs-a", "", "", ""},
		{"no template", "other", "", "", "no index template"},
		{"a template for indices counts more", "logs-plain", "", "", "no index template"},
		{"policy by pattern", "logs-a", policies("rollover", `[{"index_patterns":["logs-*"]}]`), `{"total_managed_indices":0}`, "policy p"},
		{"policy of others", "logs-a", policies("rollover", `[{"index_patterns":["x"]}]`), `{"total_managed_indices":0}`, ""},
		{"policy attached", "logs-a", policies("rollover", `null`), `{".ds-logs-a-1":{"policy_id":"p"},"total_managed_indices":1}`, "policy p"},
		{"policy that rolls nothing over", "logs-a", policies("delete", `null`), `{".ds-logs-a-1":{"policy_id":"p"},"total_managed_indices":1}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := known{"/_index_template": templates}
			if c.policies != "" {
				a["/_plugins/_ism/policies"], a["/_plugins/_ism/explain/"+c.stream] = c.policies, c.explain
			}
			err := objects.CheckStream(t.Context(), a, c.stream)
			if (err == nil) != (c.refused == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// recording is what a target says to a method and path, as recorded from OpenSearch 2.19.4; 404 to all else.
type recording map[string]struct {
	status int
	body   string
}

func (a recording) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if x, ok := a[method+" "+path]; ok {
		return x.status, []byte(x.body), nil
	}
	return 404, []byte(`{"error":{"type":"index_not_found_exception","reason":"no such index"},"status":404}`), nil
}

func TestHolders_AreTheIndicesWithAnAlias(t *testing.T) {
	const alias = `{".ds-events-000001":{"aliases":{"events":{"is_write_index":true}}}}`
	for _, c := range []struct {
		name    string
		target  recording
		holders string
		index   bool
		stream  bool
	}{
		{"nothing", recording{}, "", false, false},
		{"the alias of a former run", recording{"HEAD /events": {200, ""}, "GET /_alias/events": {200, alias}, "GET /_data_stream/events": {400, `{"error":{"type":"illegal_argument_exception","reason":"The provided expression [events] matches an alias, specify the corresponding concrete indices instead."},"status":400}`}}, ".ds-events-000001", false, false},
		{"an alias of several indices", recording{"HEAD /events": {200, ""}, "GET /_alias/events": {200, `{"x":{"aliases":{"events":{}}},"b":{"aliases":{"events":{}}}}`}}, "b x", false, false},
		{"an index", recording{"HEAD /events": {200, ""}, "GET /_alias/events": {404, `{"error":"alias [events] missing","status":404}`}}, "", true, false},
		{"a data stream", recording{
			"HEAD /events": {200, ""}, "GET /_alias/events": {404, `{"error":"alias [events] missing","status":404}`},
			"GET /_data_stream/events": {200, `{"data_streams":[{"name":"events","timestamp_field":{"name":"@timestamp"},"indices":[{"index_name":".ds-events-000001","index_uuid":"ksndufW9Sue7yOYGjlb9XQ"},{"index_name":".ds-events-000002","index_uuid":"b"}],"generation":2,"status":"GREEN","template":"t"}]}`},
		}, "", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			holders, index, err := objects.Holders(t.Context(), c.target, "events")
			if err != nil || strings.Join(holders, " ") != c.holders || index != c.index {
				t.Errorf("holders %q, index %v, %v", holders, index, err)
			}
			stream, err := objects.FindStream(t.Context(), c.target, "events")
			if err != nil || (stream != nil) != c.stream || stream != nil && (stream.UUID != "ksndufW9Sue7yOYGjlb9XQ" || len(stream.Indices) != 2) {
				t.Errorf("stream %+v, %v", stream, err)
			}
		})
	}
	if _, _, err := objects.Holders(t.Context(), recording{"HEAD /events": {403, ""}}, "events"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("forbidden: %v", err)
	}
	if _, err := objects.FindStream(t.Context(), recording{"GET /_data_stream/events": {503, ""}}, "events"); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("unavailable: %v", err)
	}
}

func TestAStreamThatIsThereIsNotCreatedAgain(t *testing.T) {
	const there = `{"error":{"root_cause":[],"type":"resource_already_exists_exception","reason":"data_stream [events] already exists"},"status":400}`
	for _, c := range []struct {
		status int
		body   string
		fails  bool
	}{{200, `{"acknowledged":true}`, false}, {400, there, false}, {400, `{"error":{"type":"illegal_argument_exception","reason":"no matching index template found for data stream [events]"},"status":400}`, true}} {
		created, err := objects.CreateStream(t.Context(), recording{"PUT /_data_stream/events": {c.status, c.body}}, "events")
		if (err != nil) != c.fails || created != (c.status == 200) {
			t.Errorf("%s: %t, %v", c.body, created, err)
		}
	}
}

func TestZones_LargestForcedAttribute(t *testing.T) {
	zones, err := objects.Zones(t.Context(), known{"/_cluster/settings": `{"persistent":{"cluster.routing.allocation.awareness.balance":"true","cluster.routing.allocation.awareness.attributes":"zone","cluster.routing.allocation.awareness.force.zone.values":["a","b","c"]},"transient":{},"defaults":{"cluster.routing.allocation.awareness.balance":"false"}}`})
	if err != nil || zones != 3 {
		t.Errorf("%d zones, %v", zones, err)
	}
}
