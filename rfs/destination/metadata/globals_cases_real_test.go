package metadata_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// ordinary puts a body into the form that all versions share.
func ordinary(body map[string]any) map[string]any {
	out := maps.Clone(body)
	for _, k := range []string{"created_date_millis", "modified_date_millis"} {
		delete(out, k)
	}
	if pattern, ok := out["template"].(string); ok {
		out["index_patterns"] = []any{pattern}
		delete(out, "template")
	}
	if list, ok := out["composed_of"].([]any); ok && len(list) == 0 {
		delete(out, "composed_of")
	}
	if stream, ok := out["data_stream"].(map[string]any); ok {
		stream = maps.Clone(stream)
		for _, k := range []string{"hidden", "allow_custom_routing"} {
			if stream[k] == false {
				delete(stream, k)
			}
		}
		if reflect.DeepEqual(stream["timestamp_field"], map[string]any{"name": "@timestamp"}) {
			delete(stream, "timestamp_field") // the default
		}
		out["data_stream"] = stream
	}
	if m, ok := out["mappings"].(map[string]any); ok {
		for _, typ := range []string{"_doc", "doc", "_default_"} {
			if inner, ok := m[typ].(map[string]any); ok {
				if len(m) > 1 { // of several types only the fields are compared
					delete(m, "_default_")
				}
				m = inner
				if typ == "doc" {
					break
				}
			}
		}
		m = maps.Clone(m)
		if reflect.DeepEqual(m["_source"], map[string]any{"enabled": true}) {
			delete(m, "_source") // the default
		}
		stringsToKeywords(m)
		out["mappings"] = m
	}
	if s, ok := out["settings"].(map[string]any); ok {
		out["settings"] = nested(s)
	}
	if inner, ok := out["template"].(map[string]any); ok {
		out["template"] = ordinary(inner)
	}
	return out
}

// stringsToKeywords is the one change of a field that the sources' templates need.
func stringsToKeywords(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if m["type"] == "string" && m["index"] == "not_analyzed" {
		m["type"], m["index"] = "keyword", true
	}
	for _, x := range m {
		stringsToKeywords(x)
	}
}

// nested gives settings with dotted names their objects.
func nested(in map[string]any) map[string]any {
	out := map[string]any{}
	var put func(at map[string]any, key string, v any)
	put = func(at map[string]any, key string, v any) {
		if m, ok := v.(map[string]any); ok {
			for k, x := range m {
				put(at, key+"."+k, x)
			}
			return
		}
		first, rest, more := strings.Cut(key, ".")
		if !more {
			at[first] = v
			return
		}
		below, ok := at[first].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[first] = below
		}
		put(below, rest, v)
	}
	for k, v := range in {
		put(out, k, v)
	}
	return out
}

func convert(t *testing.T, v target.Version, sections map[string]json.RawMessage) metadata.GlobalPlan {
	t.Helper()
	plan, err := metadata.ConvertGlobals(v, parse(t, sections), everything)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func leavesWhatIsThere(t *testing.T, c *target.Client, v target.Version) {
	sections := map[string]json.RawMessage{
		"templates":          json.RawMessage(`{"own":{"order":7,"index_patterns":["x-*"],"settings":{"index":{"number_of_shards":"9"}},"mappings":{},"aliases":{}}}`),
		"component_template": json.RawMessage(`{"component_template":{"own":{"template":{"settings":{"index":{"number_of_shards":"9"}}},"version":9}}}`),
		"index_template":     json.RawMessage(`{"index_template":{"own":{"index_patterns":["y-*"],"priority":9,"composed_of":["own"]}}}`),
		"ingest":             json.RawMessage(`{"pipeline":[{"id":"own","config":{"processors":[{"uppercase":{"field":"a"}}]}}]}`),
		"stored_scripts":     json.RawMessage(`{"own":{"lang":"painless","source":"9"}}`),
	}
	made := map[string]string{
		"/_template/own":           `{"order":1,"version":4,"index_patterns":["x-*"],"settings":{"index":{"number_of_shards":"1","refresh_interval":"3s"}},"mappings":{"properties":{"a":{"type":"long"}}},"aliases":{"b":{}}}`,
		"/_component_template/own": `{"template":{"settings":{"index":{"number_of_replicas":"0"}},"aliases":{"c":{}}},"version":2,"_meta":{"who":"me"}}`,
		"/_index_template/own":     `{"index_patterns":["z-*"],"priority":1,"composed_of":[],"template":{"mappings":{"properties":{"m":{"type":"keyword"}}}}}`,
		"/_ingest/pipeline/own":    `{"description":"mine","processors":[{"set":{"field":"a","value":1}}]}`,
		"/_scripts/own":            `{"script":{"lang":"painless","source":"1"}}`,
	}
	defer clean(t, c, "script own")
	before := map[string]any{}
	for path, body := range made {
		status, answer, err := c.Do(t.Context(), http.MethodPut, path, nil, []byte(body))
		if err == nil {
			err = fault.CheckStatus(path, status, answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		var is any
		get(t, c, path, &is)
		before[path] = is
	}
	done, err := objects.EnsureGlobals(t.Context(), c, convert(t, v, sections), nil)
	if err != nil || len(done.Created) > 0 || len(done.Existed) != len(made) {
		t.Errorf("%+v, %v", done, err)
	}
	for path := range made {
		var is any
		if get(t, c, path, &is); !reflect.DeepEqual(is, before[path]) {
			t.Errorf("%s is %v, was %v", path, is, before[path])
		}
	}
}

func createsOnce(t *testing.T, c *target.Client, v target.Version) {
	plan := convert(t, v, readCase(t, "testdata/globals/7.10.2.json").Sections)
	const many = 4
	var wg sync.WaitGroup
	created := make([][]string, many)
	for i := range many {
		wg.Go(func() {
			done, err := objects.EnsureGlobals(t.Context(), c, plan, nil)
			if err != nil {
				t.Error(err)
			}
			if len(done.Created)+len(done.Existed) != len(plan.Objects) {
				t.Errorf("%d created and %d there of %d", len(done.Created), len(done.Existed), len(plan.Objects))
			}
			created[i] = done.Created
		})
	}
	wg.Wait()
	defer clean(t, c, slices.Concat(created...)...)
	times := map[string]int{}
	for _, label := range slices.Concat(created...) {
		times[label]++
	}
	for _, o := range plan.Objects {
		// Pipelines and scripts have no request that only creates: all write the same.
		if n := times[string(o.Kind)+" "+o.Name]; n == 0 || n > 1 && o.Kind != metadata.Pipeline && o.Kind != metadata.Script {
			t.Errorf("%s %s was created %d times", o.Kind, o.Name, n)
		}
	}
}

func tellsWhatIsLacking(t *testing.T, c *target.Client, v target.Version) {
	sections := map[string]json.RawMessage{
		"cluster_coordination": json.RawMessage(`{}`),
		"ingest": json.RawMessage(`{"pipeline":[
 {"id":"good","config":{"processors":[{"set":{"field":"a","value":1}}],"_meta":{"a":1},"version":3}},
 {"id":"infers","config":{"processors":[{"foreach":{"field":"x","processor":{"inference":{"model_id":"m"}}}}]}},
 {"id":"unheard","config":{"processors":[{"unheard_of":{"field":"x"}}]}},
 {"id":"copies","config":{"processors":[{"set":{"field":"x","copy_from":"y"}}]}}]}`),
		"stored_scripts": json.RawMessage(`{"old":{"lang":"groovy","source":"1"},"search":{"lang":"mustache","source":"{\"query\":{\"match_all\":{}}}","options":{"content_type":"application/json;charset=utf-8"}},"painless#half":{"lang":"painless","source":"doc['a'].value / 2","options":{}}}`),
		"index_template": json.RawMessage(`{"index_template":{
 "piped":{"index_patterns":["piped-*"],"priority":5,"composed_of":["there","away"],"ignore_missing_component_templates":["away"],"template":{"settings":{"index":{"default_pipeline":"good","final_pipeline":"good","lifecycle":{"name":"p","rollover_alias":"w"},"mode":"logsdb"}},"mappings":{"properties":{"v":{"type":"dense_vector","dims":3}}},"lifecycle":{"data_retention":"7d"}}},
 "lost":{"index_patterns":["lost-*"],"priority":5,"template":{"settings":{"index.default_pipeline":"unheard"}}},
 "rival":{"index_patterns":["taken-*"],"priority":77,"composed_of":[]},
 "stream":{"index_patterns":["stream-*"],"priority":6,"data_stream":{"hidden":true,"allow_custom_routing":false},"composed_of":["metrics-mappings"]},
 "logs":{"index_patterns":["logs-*-*"],"priority":100,"data_stream":{},"composed_of":["logs-mappings"],"_meta":{"managed":true}}}}`),
		"component_template": json.RawMessage(`{"component_template":{"there":{"template":{"settings":{"index":{"number_of_replicas":"0"}}}},
 "metrics-mappings":{"template":{"mappings":{"properties":{"@timestamp":{"type":"date"}}}},"_meta":{"managed":true}},"logs-mappings":{"template":{},"_meta":{"managed":true}}}}`),
		"index_lifecycle": json.RawMessage(`{"policies":{"p":{"policy":{"phases":{"hot":{"min_age":"0ms","actions":{"rollover":{"max_age":"1d"}}},"delete":{"min_age":"30d","actions":{"delete":{}}}}}}}}`),
	}
	for path, body := range map[string]string{"/_index_template/own": `{"index_patterns":["taken-*"],"priority":77}`} {
		if status, answer, err := c.Do(t.Context(), http.MethodPut, path, nil, []byte(body)); err != nil || status != http.StatusOK {
			t.Fatalf("%s, %v", answer, err)
		}
	}
	done, err := objects.EnsureGlobals(t.Context(), c, convert(t, v, sections), nil)
	defer clean(t, c, done.Created...)
	if err != nil {
		t.Error(err)
	}
	want := []string{"script half", "script search", "pipeline good", "component-template metrics-mappings", "component-template there", "index-template piped", "index-template stream", "index-template lost"}
	slices.Sort(want)
	created := slices.Sorted(slices.Values(done.Created))
	if !slices.Equal(created, want) {
		t.Errorf("created %q, want %q", created, want)
	}
	left := map[string]string{}
	for _, x := range done.Left {
		left[string(x.Kind)+" "+x.Name] = x.Reason
	}
	for name, words := range map[string]string{
		"pipeline infers": "processor inference", "pipeline unheard": "No processor type exists with name [unheard_of]", "pipeline copies": "[value] required property is missing",
		"script old": "no script language groovy", "index-template rival": "same priority", "index-template logs": "made it for itself",
		"component-template logs-mappings": "made it for itself", "ilm-policy p": "the target has no ISM",
	} {
		if !strings.Contains(left[name], words) {
			t.Errorf("%s was left out because: %q, want %q", name, left[name], words)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("also left out: %v", left)
	}
	changes := ""
	for _, ch := range done.Changes {
		changes += ch.Index + ": " + ch.Rule + " " + ch.Path + ": " + ch.Detail + "\n"
	}
	for _, words := range []string{
		"pipeline good: pipeline-option _meta", "index-template piped: pipeline-setting index.final_pipeline", "index-template lost: pipeline-setting index.default_pipeline: dropped: the pipeline unheard", "index-template piped: missing-component composed_of: away",
		"index-template piped: template-option template.lifecycle", "index-template piped: lifecycle index.lifecycle.name", "index-template piped: lifecycle index.lifecycle.rollover_alias: dropped",
		"index-template stream: data-stream-option data_stream.hidden", " v: ",
	} {
		if !strings.Contains(changes, words) {
			t.Errorf("no change %q among\n%s", words, changes)
		}
	}
	piped := returned(t, c, []string{"index-template piped"})["index-template piped"].(map[string]any)
	settings := nested(piped["template"].(map[string]any)["settings"].(map[string]any))
	if s, ok := settings["index"].(map[string]any); !ok || s["default_pipeline"] != "good" || s["final_pipeline"] != nil {
		t.Errorf("settings %v", settings)
	}
}
