package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// provoked is a document that the target refuses, and what its remedy asks for: requests before a redrive, or another index or
// another document before a new session.
type provoked struct {
	class   string // and the name of the index, with - for _
	create  string // body of the index; "": it is made otherwise
	source  string
	fix     []string // method, path, body; none: the remedy needs no request
	session bool     // the remedy is a new session, into an index that is made again as remake, with the source repaired
	remake  string
	repair  string // "": the same source
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
	redriven := func(class, create, source string, fix ...string) provoked {
		return provoked{class: class, create: create, source: source, fix: fix}
	}
	again := func(class, create, source, remake, repair string) provoked {
		return provoked{class: class, create: create, source: source, session: true, remake: remake, repair: repair}
	}
	return []provoked{
		redriven("strict_mapping", `{"mappings":{"dynamic":"strict"}}`, `{"a":1}`, "PUT", "/INDEX/_mapping", `{"dynamic":true}`),
		redriven("total_fields_limit", limit("total_fields", 1, ""), `{"a":1,"b":2}`, raise("total_fields")...),
		redriven("depth_limit", limit("depth", 2, ""), `{"a":{"b":{"c":{"d":1}}}}`, raise("depth")...),
		redriven("nested_fields_limit", limit("nested_fields", 0, `,"mappings":{"dynamic_templates":[{"n":{"match_mapping_type":"object","mapping":{"type":"nested"}}}]}`),
			`{"a":{"b":1}}`, raise("nested_fields")...),
		redriven("nested_objects_limit", limit("nested_objects", 1, `,"mappings":{"properties":{"a":{"type":"nested"}}}`), `{"a":[{"b":1},{"b":2}]}`, raise("nested_objects")...),
		redriven("field_name_length_limit", limit("field_name_length", 5, ""), `{"abcdefgh":1}`, raise("field_name_length")...),
		redriven("immense_term", mapping(`"a":{"type":"keyword"}`), `{"a":"`+strings.Repeat("x", 40_000)+`"}`,
			"PUT", "/INDEX/_mapping", `{"properties":{"a":{"type":"keyword","ignore_above":8191}}}`),
		redriven("stream_create_only", "", `{"@timestamp":"2024-01-01T00:00:00Z"}`),
		redriven("no_write_index", "", `{"a":1}`, "POST", "/_aliases", `{"actions":[{"add":{"index":"INDEX-1","alias":"INDEX","is_write_index":true}}]}`),
		redriven("pipeline_missing", `{"settings":{"index.final_pipeline":"nowhere"}}`, `{"a":1}`, without...),
		redriven("pipeline_failure", `{"settings":{"index.final_pipeline":"fails"}}`, `{"a":1}`, without...),
		redriven("number_range", mapping(`"a":{"type":"byte"}`), `{"a":300}`, malformed("byte")...),
		redriven("date_format", mapping(`"a":{"type":"date"}`), `{"a":"yesterday"}`, malformed("date")...),
		redriven("number_format", mapping(`"a":{"type":"integer"}`), `{"a":"many"}`, malformed("integer")...),
		redriven("ip_format", mapping(`"a":{"type":"ip"}`), `{"a":"here"}`, malformed("ip")...),
		redriven("geo_format", mapping(`"a":{"type":"geo_point"}`), `{"a":"no place!"}`, malformed("geo_point")...),
		again("routing_missing", `{"mappings":{"_routing":{"required":true}}}`, `{"a":1}`, `{}`, ""),
		again("join_routing", mapping(`"a":{"type":"join","relations":{"p":"c"}}`), `{"a":{"name":"c","parent":"1"}}`, `{}`, ""),
		again("type_conflict", `{}`, `{"a":[{"d":1},{"d":1.5}]}`, mapping(`"a":{"properties":{"d":{"type":"double"}}}`), ""),
		again("object_expected", mapping(`"a":{"properties":{"b":{"type":"long"}}}`), `{"a":1}`, `{}`, ""),
		again("value_expected", mapping(`"a":{"type":"keyword"}`), `{"a":{"b":1}}`, `{}`, ""),
		again("boolean_format", mapping(`"a":{"type":"boolean"}`), `{"a":"maybe"}`, mapping(`"a":{"type":"keyword"}`), ""),
		again("value_format", mapping(`"a":{"type":"integer_range"}`), `{"a":{"gte":"x"}}`, `{}`, ""),
		again("mapping", mapping(`"a":{"type":"long"},"b":{"type":"alias","path":"a"}`), `{"b":1}`, `{}`, ""),
		again("field_name", `{}`, `{"":1}`, `{"mappings":{"enabled":false}}`, ""),
		again("json", `{}`, `{"a":tru}`, `{}`, `{"a":true}`),
		again("id_too_long", `{}`, `{"a":1}`, `{}`, `{"a":1}`),
	}
}

func (p provoked) index() string { return strings.ReplaceAll(p.class, "_", "-") }

// id is that of the document, before or after it was repaired.
func (p provoked) id(repaired bool) string {
	if p.class == "id_too_long" && !repaired {
		return strings.Repeat("x", 600)
	}
	return "1"
}

// TestClassesOfFailuresAndTheirRemedies has a node refuse a document of an import for each class that it can be made to, applies
// the remedies, and looks for the documents.
func TestClassesOfFailuresAndTheirRemedies(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, n, "PUT", "/_index_template/streams", json.RawMessage(`{"index_patterns":["stream-create-only"],"data_stream":{}}`))
	call(t, n, "PUT", "/_data_stream/stream-create-only", nil)
	t.Cleanup(func() {
		_, err := n.Send(context.Background(), "DELETE", "/_data_stream/stream-create-only", "", nil)
		must(t, err)
	})
	for _, i := range []string{"1", "2"} {
		call(t, n, "PUT", "/no-write-index-"+i, json.RawMessage(`{"aliases":{"no-write-index":{}}}`))
	}
	call(t, n, "PUT", "/_ingest/pipeline/fails", json.RawMessage(`{"processors":[{"fail":{"message":"no"}}]}`))
	all, files, dir := provocations(), t.TempDir(), filepath.Join(t.TempDir(), "failed")
	write := func(repaired bool) {
		t.Helper()
		var lines bytes.Buffer
		for _, p := range all {
			source := p.source
			if repaired && p.repair != "" {
				source = p.repair
			}
			if !repaired || p.session {
				fmt.Fprintf(&lines, "{\"index\":{\"_index\":%q,\"_id\":%q}}\n%s\n", p.index(), p.id(repaired), source)
			}
		}
		must(t, os.WriteFile(filepath.Join(files, "a.ndjson"), lines.Bytes(), 0o600))
	}
	write(false)
	for _, p := range all {
		if p.create != "" {
			call(t, n, "PUT", "/"+p.index(), json.RawMessage(p.create))
		}
	}
	// In one request, a pipeline that is missing fails the documents of the next, too.
	imports := func(want int, session string) {
		t.Helper()
		res := Run(t, "rfsd", "import", "--from", files, "--target-host", n.URL, "--session-name", session, "--failed-documents", dir, "--max-failed-documents", "unlimited",
			"--documents-per-bulk-request", "1")
		if res.Code != want {
			t.Fatalf("import %s: exit %d, want %d: %s%s", session, res.Code, want, res.Stdout, res.Stderr)
		}
	}
	imports(6, "refused")
	var listed struct {
		Groups []struct{ Index, Class, Remedy string }
	}
	must(t, outputtest.Decode(Run(t, "rfsctl", "failures", "--failed-documents", dir, "--output", "json").Stdout, &listed))
	classes, remedies := map[string]string{}, map[string]string{}
	for _, g := range listed.Groups {
		classes[g.Index], remedies[g.Index] = g.Class, g.Remedy
	}
	sent := 0
	for _, p := range all {
		if classes[p.index()] != p.class || remedies[p.index()] == "" {
			t.Errorf("%s: class %q, remedy %q", p.class, classes[p.index()], remedies[p.index()])
		}
		if p.session {
			continue
		}
		sent++
		if p.fix == nil {
			continue
		}
		if !strings.Contains(remedies[p.index()], p.index()) {
			t.Errorf("%s: the remedy does not name the index: %s", p.class, remedies[p.index()])
		}
		call(t, n, p.fix[0], strings.ReplaceAll(p.fix[1], "INDEX", p.index()), json.RawMessage(strings.ReplaceAll(p.fix[2], "INDEX", p.index())))
	}
	r := redrives(t, 6, "--target-host", n.URL, "--session-name", "refused", "--index-allowlist", "*", "--failed-documents", dir, "--documents-per-bulk-request", "1")
	if r.Indexed != int64(sent) || r.Failed != int64(len(all)-sent) {
		t.Errorf("after %d remedies %d arrived, %d failed: %+v", sent, r.Indexed, r.Failed, r.Classes)
	}
	for _, c := range r.Classes {
		if classes[c.Index] != c.Class || remedies[c.Index] != c.Remedy {
			t.Errorf("rfsd redrive: %+v, rfsctl failures has %s: %s", c, classes[c.Index], remedies[c.Index])
		}
	}
	for _, p := range all {
		if p.session {
			call(t, n, "DELETE", "/"+p.index(), nil)
			call(t, n, "PUT", "/"+p.index(), json.RawMessage(p.remake))
		}
	}
	write(true)
	imports(0, "repaired")
	shown(t, n)
	for _, p := range all {
		if got := fmt.Sprint(call(t, n, "GET", "/"+p.index()+"/_count", nil)["count"]); got != "1" {
			t.Errorf("%s: %s documents arrived, want 1", p.class, got)
		}
	}
	t.Logf("%d classes, %d remedies before a redrive, %d before a new session", len(all), sent, len(all)-sent)
}

// TestRemediesThatAreOptionsOfAMigration has a target refuse documents of a snapshot that another node would take, and gives a
// new session the rules, or the option, that the remedies name.
func TestRemediesThatAreOptionsOfAMigration(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := repositoryOn(t, n)
	wipe(t, n)
	sources := map[string]string{"metadata_field": `{"_id":"x","a":1}`}
	var allow []string
	for class, source := range sources {
		index := strings.ReplaceAll(class, "_", "-")
		call(t, n, "PUT", "/"+index, json.RawMessage(`{"mappings":{"enabled":false}}`))
		call(t, n, "PUT", "/"+index+"/_doc/1?refresh=true", json.RawMessage(source))
		allow = append(allow, "--index-allowlist", index)
	}
	call(t, n, "PUT", "/_snapshot/classes", map[string]any{"type": "fs", "settings": map[string]any{"location": repo}})
	t.Cleanup(func() {
		_, err := n.Send(context.Background(), "DELETE", "/_snapshot/classes", "", nil)
		must(t, err)
	})
	call(t, n, "PUT", "/_snapshot/classes/snap1?wait_for_completion=true", map[string]any{"indices": "metadata-field", "include_global_state": false})
	for class := range sources {
		index := strings.ReplaceAll(class, "_", "-")
		call(t, n, "DELETE", "/"+index, nil)
		call(t, n, "PUT", "/"+index, json.RawMessage(`{}`))
	}
	rules := writeRules(t, "[[document]]\nmatch = \"metadata-field\"\nrename = [{ from = \"_id\", to = \"id_of_old\" }]\n")
	for _, c := range []struct {
		session string
		more    []string
		code    int
		want    []string
	}{
		{"refused", nil, 6, []string{"metadata-field metadata_field"}},
		{"rules", []string{"--rules", rules}, 0, nil},
	} {
		dir := filepath.Join(t.TempDir(), "failed")
		res := Run(t, "rfsd", targetArgs(n.URL, repo, append(append([]string{"--session-name", c.session, "--existing-documents", "overwrite", "--failed-documents", dir}, allow...), c.more...)...)...)
		if res.Code != c.code {
			t.Fatalf("%s: exit %d: %s%s", c.session, res.Code, res.Stdout, res.Stderr)
		}
		var shown struct {
			Groups []struct{ Index, Class string }
		}
		if c.code != 0 {
			must(t, outputtest.Decode(Run(t, "rfsctl", "failures", "--failed-documents", dir, "--output", "json").Stdout, &shown))
		}
		var got []string
		for _, g := range shown.Groups {
			got = append(got, g.Index+" "+g.Class)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: failed %q, want %q", c.session, got, c.want)
		}
	}
	for class := range sources {
		if got := countOf(t, n, strings.ReplaceAll(class, "_", "-")); got != 1 {
			t.Errorf("%s: %d documents arrived, want 1", class, got)
		}
	}
}

// TestDocumentsWithoutATimestampArriveInIndices takes the timestamps away by rules, so that a data stream refuses the documents.
func TestDocumentsWithoutATimestampArriveInIndices(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	withoutStreams(t, n)
	repo := streamRepos()[1]
	rules := writeRules(t, "[[document]]\nmatch = \"*\"\nrename = [{ from = \"@timestamp\", to = \"when\" }]\n")
	want := int64(len(streamTruth(t, repo)))
	dir := filepath.Join(t.TempDir(), "failed")
	refused := Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "stream", "--data-streams", "create", "--rules", rules, "--failed-documents", dir, "--max-failed-documents", "unlimited")...)
	out := Run(t, "rfsctl", "failures", "--failed-documents", dir).Stdout
	if refused.Code != 6 || !strings.Contains(out, fmt.Sprintf("%d × %s: stream_timestamp", want, streamOfFixture)) || !strings.Contains(out, "--data-streams index") {
		t.Errorf("exit %d: %s%s", refused.Code, refused.Stderr, out)
	}
	call(t, n, "DELETE", "/_data_stream/"+streamOfFixture, nil)
	res := Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "indices", "--data-streams", "index", "--rules", rules)...)
	if sum := parseSummary(t, res); res.Code != 0 || len(sum.Indices) == 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if got := countOf(t, n, streamOfFixture); int64(got) != want {
		t.Errorf("%d documents of %d arrived", got, want)
	}
}
