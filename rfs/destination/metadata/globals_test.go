package metadata

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

var (
	openSearch = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	all        = Selection{Pipelines: true, Scripts: true, Policies: true}
)

func sections(t testing.TB, text string) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func planOf(t testing.TB, v target.Version, sel Selection, text string) GlobalPlan {
	t.Helper()
	g, err := ParseGlobals(sections(t, text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ConvertGlobals(v, g, sel)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// lookup finds an object of a plan, and the reason of one that is left out.
func lookup(p GlobalPlan, name string) (body any, left string) {
	for _, o := range p.Objects {
		if o.Label() == name {
			if err := json.Unmarshal(o.Body, &body); err != nil {
				panic(err)
			}
			return body, ""
		}
	}
	for _, l := range p.Left {
		if label(l.Kind, l.Name) == name {
			return nil, l.Reason
		}
	}
	return nil, ""
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestObjectsOfEveryGenerationAreConverted: body is the request that creates the object, left
// a part of the reason why there is none.
func TestObjectsOfEveryGenerationAreConverted(t *testing.T) {
	for _, c := range []struct{ name, in, object, body, left string }{
		{"the one pattern of Elasticsearch 5 and before", `{"templates":{"a":{"order":1,"template":"x-*","settings":{"number_of_shards":"2"},"mappings":[],"aliases":{}}}}`,
			"template a", `{"order":1,"index_patterns":["x-*"],"settings":{"index.number_of_shards":"2"}}`, ""},
		{"mappings as text", `{"templates":{"a":{"index_patterns":["x"],"mappings":[{"t":"{\"t\":{\"properties\":{\"f\":{\"type\":\"long\"}}}}"}]}}}`,
			"template a", `{"index_patterns":["x"],"settings":null,"mappings":{"properties":{"f":{"type":"long"}}}}`, ""},
		{"several types, defaults last", `{"templates":{"a":{"template":"x","mappings":[{"_default_":{"properties":{"d":{"type":"long"},"f":{"type":"long"}}}},{"t":{"properties":{"f":{"type":"keyword"}}}},{"u":{"properties":{"g":{"type":"ip"}}}}]}}}`,
			"template a", `{"index_patterns":["x"],"mappings":{"properties":{"d":{"type":"long"},"f":{"type":"keyword"},"g":{"type":"ip"}}}}`, ""},
		{"Joda dates of Elasticsearch 6", `{"cluster_uuid":"u","templates":{"a":{"index_patterns":["x"],"mappings":[{"t":{"properties":{"f":{"type":"date","format":"YYYY-MM-dd"}}}}]}}}`,
			"template a", `{"index_patterns":["x"],"mappings":{"properties":{"f":{"type":"date","format":"yyyy-MM-dd"}}}}`, ""},
		{"a component without anything", `{"component_template":{"component_template":{"c":{"version":1}}}}`, "component-template c", `{"version":1,"template":{}}`, ""},
		{"options that OpenSearch does not know", `{"index_template":{"index_template":{"i":{"index_patterns":["x"],"allow_auto_create":true,"priority":3,"data_stream":{"timestamp_field":"ts","hidden":false}}}}}`,
			"index-template i", `{"index_patterns":["x"],"priority":3,"data_stream":{"timestamp_field":{"name":"ts"}}}`, ""},
		{"a script of Elasticsearch 5.0", `{"stored_scripts":{"painless#s":{"script":"1+1"}}}`, "script s", `{"script":{"lang":"painless","source":"1+1"}}`, ""},
		{"a script of Elasticsearch 5.3", `{"stored_scripts":{"s":{"lang":"painless","code":"1+1","options":{}}}}`, "script s", `{"script":{"lang":"painless","source":"1+1"}}`, ""},
		{"a bare script", `{"stored_scripts":{"painless#s":"1+1"}}`, "script s", `{"script":{"lang":"painless","source":"1+1"}}`, ""},
		{"a search template", `{"stored_scripts":{"s":{"template":{"query":{"match_all":{}}}}}}`, "script s", `{"script":{"lang":"mustache","source":{"query":{"match_all":{}}}}}`, ""},
		{"a language that is gone", `{"stored_scripts":{"s":{"lang":"groovy","source":"1"}}}`, "script s", "", "no script language groovy"},
		{"a script without source", `{"stored_scripts":{"painless#s":{}}}`, "script painless#s", "", "no source"},
		{"a pipeline without processors", `{"ingest":{"pipeline":[{"id":"p","config":{"description":"d"}}]}}`, "pipeline p", `{"description":"d","processors":[]}`, ""},
		{"a processor in a handler of failures", `{"ingest":{"pipeline":[{"id":"p","config":{"processors":[{"set":{"field":"a","value":1,"on_failure":[{"set_security_user":{"field":"u"}}]}}]}}]}}`, "pipeline p", "", "processor set_security_user"},
		{"a processor with another meaning", `{"ingest":{"pipeline":[{"id":"p","config":{"processors":[{"fingerprint":{"fields":["a"]}}]}}]}}`, "pipeline p", "", "other fingerprints"},
		{"another way to read names", `{"ingest":{"pipeline":[{"id":"p","config":{"field_access_pattern":"flexible","processors":[]}}]}}`, "pipeline p", "", "names of fields"},
		{"settings of the cluster", `{"settings":{"a":{"b":"1"},"archived.x":"2"}}`, "cluster-setting a.b", "", "not migrated"},
		{"snapshot policies", `{"snapshot_lifecycle":{"policies":{"nightly":{"policy":{}}},"operation_mode":"RUNNING"}}`, "other snapshot_lifecycle nightly", "", "Snapshot Management"},
		{"tasks of plugins", `{"persistent_tasks":{"tasks":[{"id":"job-x","task":{"xpack/ml/job":{"params":{}}}},{"id":"health-node","task":{"health-node":{}}}]}}`, "other xpack/ml/job job-x", "", "no equal"},
		{"repositories", `{"repositories":{"r":{"type":"fs"}}}`, "other repositories", "", "register"},
		{"an unknown part", `{"from_the_future":{"x":1}}`, "other from_the_future", "", "does not know"},
		{"data streams", `{"data_stream":{"data_stream":{"s":{"indices":[{"index_name":".ds-s-1"},{"index_name":".ds-s-2"}]}},"data_stream_aliases":{}}}`, "data-stream s", "", "2 backing indices"},
		{"aliases of data streams", `{"data_stream":{"data_stream":{},"data_stream_aliases":{"al":{"data_streams":["s"]}}}}`, "data-stream al", "", "aliases"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, left := lookup(planOf(t, openSearch, all, c.in), c.object)
			if c.left != "" || body == nil {
				if body != nil || !strings.Contains(left, c.left) || left == "" {
					t.Fatalf("left out because %q, want %q", left, c.left)
				}
				return
			}
			want := value(t, c.body)
			if m, ok := want.(map[string]any); ok && m["settings"] == nil {
				delete(m, "settings")
			}
			if !reflect.DeepEqual(body, want) {
				t.Errorf("%v, want %v", body, want)
			}
		})
	}
}

func TestWhatTheSourceMadeForItselfIsLeftOutUnlessAskedForOrNeeded(t *testing.T) {
	const in = `{"templates":{".monitoring-es":{"index_patterns":[".monitoring-es-*"]},"logs":{"index_patterns":["logs*"]}},
 "index_template":{"index_template":{"logs":{"index_patterns":["logs-*-*"],"composed_of":["logs-settings"]},"metrics":{"index_patterns":["my-*"],"composed_of":["ecs@mappings","missing"]},"ilm-history-5":{"index_patterns":["ilm-history-5*"]}}},
 "component_template":{"component_template":{"logs-settings":{"template":{}},"ecs@mappings":{"template":{}},"mine":{"template":{},"_meta":{"managed":false}},"theirs":{"template":{},"_meta":{"managed":true}}}},
 "index_lifecycle":{"policies":{"30-days-default":{"policy":{"phases":{}}},"m":{"policy":{"phases":{},"_meta":{"managed":true}}}}}}`
	taken := func(sel Selection) []string {
		var names []string
		for _, o := range planOf(t, openSearch, sel, in).Objects {
			names = append(names, o.Label())
		}
		return names
	}
	want := []string{"template logs", "component-template ecs@mappings", "component-template mine", "index-template metrics"}
	if got := taken(all); !slices.Equal(got, want) {
		t.Errorf("taken %q, want %q", got, want)
	}
	with := all
	with.Managed = true
	if got := taken(with); len(got) != 11 {
		t.Errorf("with managed ones: %q", got)
	}
}

func TestOnlyWhatIsAskedForIsTaken(t *testing.T) {
	const in = `{"templates":{"a":{"index_patterns":["x"]},"b":{"index_patterns":["x"]}},"component_template":{"component_template":{"a":{},"b":{}}},
 "index_template":{"index_template":{"a":{"index_patterns":["x"]},"b":{"index_patterns":["y"]}}},"ingest":{"pipeline":[{"id":"p","config":{}}]},"stored_scripts":{"s":{"lang":"painless","source":"1"}},
 "index_lifecycle":{"policies":{"l":{"policy":{"phases":{}}}}}}`
	only := func(name string) func(string) bool { return func(s string) bool { return s == name } }
	plan := planOf(t, openSearch, Selection{Templates: only("a"), ComponentTemplates: only("b"), IndexTemplates: only("")}, in)
	var got []string
	for _, o := range plan.Objects {
		got = append(got, o.Label())
	}
	if want := []string{"template a", "component-template b"}; !slices.Equal(got, want) {
		t.Errorf("taken %q, want %q", got, want)
	}
	for name, words := range map[string]string{"template b": "allow-list", "index-template a": "allow-list", "pipeline p": "--include pipelines", "script s": "--include scripts", "ilm-policy l": "--include policies"} {
		if _, left := lookup(plan, name); !strings.Contains(left, words) {
			t.Errorf("%s is left out because %q, want %q", name, left, words)
		}
	}
}

func TestATemplateForDataStreamsNeverRefusesAnIndexOfTheMigration(t *testing.T) {
	const in = `{"index_template":{"index_template":{"s":{"index_patterns":["e[1]*"],"data_stream":{}},"other":{"index_patterns":["f-*"],"data_stream":{}},"plain":{"index_patterns":["e*"]}}}}`
	sel := all
	sel.Ordinary = []string{"e[1]-x", "f"}
	plan := planOf(t, openSearch, sel, in)
	if _, left := lookup(plan, "index-template s"); !strings.Contains(left, "e[1]-x") {
		t.Errorf("left out because %q", left)
	}
	if len(plan.Objects) != 2 {
		t.Errorf("%d objects", len(plan.Objects))
	}
}

func TestWhatClustersKeepInIndicesIsTold(t *testing.T) {
	plan, err := ConvertGlobals(openSearch, Globals{Indices: []string{"a", ".watches", ".security-7", ".scripts"}}, all)
	if err != nil || len(plan.Left) != 3 {
		t.Errorf("%v, %v", plan.Left, err)
	}
}

func TestOldElasticsearchHasNoTemplatesOfComponents(t *testing.T) {
	v := target.Version{Distribution: "elasticsearch", Number: "7.7.0", Major: 7, Minor: 7}
	plan := planOf(t, v, all, `{"component_template":{"component_template":{"c":{}}},"index_lifecycle":{"policies":{"p":{"policy":{"phases":{}}}}}}`)
	for name, words := range map[string]string{"component-template c": "no such templates", "ilm-policy p": "ILM, not ISM"} {
		if _, left := lookup(plan, name); !strings.Contains(left, words) {
			t.Errorf("%s: %q, want %q", name, left, words)
		}
	}
}

func TestUserRulesComeLastInTemplates(t *testing.T) {
	set, err := rules.Parse("r.toml", []byte("[[template]]\nmatch = \"t*\"\nset = [{path = \"/settings/number_of_shards\", value = \"4\"}]\ndrop = [\"/mappings/properties/a\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	sel := all
	sel.Rules = set
	plan := planOf(t, openSearch, sel, `{"templates":{"t1":{"index_patterns":["x"],"mappings":{"_doc":{"properties":{"a":{"type":"long"},"b":{"type":"long"}}}}}},
 "component_template":{"component_template":{"t2":{}}},"index_template":{"index_template":{"other":{"index_patterns":["x"],"template":{"settings":{"index":{"number_of_shards":"1"}}}}}}}`)
	for name, want := range map[string]string{
		"template t1":           `{"index_patterns":["x"],"settings":{"index.number_of_shards":"4"},"mappings":{"properties":{"b":{"type":"long"}}}}`,
		"component-template t2": `{"template":{"settings":{"index.number_of_shards":"4"}}}`,
		"index-template other":  `{"index_patterns":["x"],"template":{"settings":{"index.number_of_shards":"1"}}}`,
	} {
		if got, _ := lookup(plan, name); !reflect.DeepEqual(got, value(t, want)) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

func TestPoliciesBecomeStatesWithTheSameAges(t *testing.T) {
	for _, c := range []struct{ name, phases, body, changes, left string }{
		{
			"all that both have", `{"hot":{"min_age":"0ms","actions":{"set_priority":{"priority":100},"rollover":{"max_age":"1d","max_size":"50gb","max_docs":5,"max_primary_shard_size":"10gb"},"readonly":{}}},
 "warm":{"min_age":"2d","actions":{"forcemerge":{"max_num_segments":1},"shrink":{"number_of_shards":1},"allocate":{"number_of_replicas":0,"include":{},"require":{}}}},
 "delete":{"min_age":"30d","actions":{"delete":{"delete_searchable_snapshot":true}}}}`,
			`[{"name":"hot","actions":[{"index_priority":{"priority":100}},{"rollover":{"min_index_age":"1d","min_size":"50gb","min_doc_count":5,"min_primary_shard_size":"10gb"}},{"read_only":{}}],"transitions":[{"state_name":"warm","conditions":{"min_rollover_age":"2d"}}]},
 {"name":"warm","actions":[{"replica_count":{"number_of_replicas":0}},{"shrink":{"num_new_shards":1}},{"force_merge":{"max_num_segments":1}}],"transitions":[{"state_name":"delete","conditions":{"min_rollover_age":"30d"}}]},
 {"name":"delete","actions":[{"delete":{}}],"transitions":[]}]`, "ism-action warm.shrink", "",
		},
		{
			"ages count from the creation without a rollover, and the first state has no actions",
			`{"warm":{"min_age":"0d","actions":{"readonly":{}}},"delete":{"min_age":"7d","actions":{"delete":{}}}}`,
			`[{"name":"hot","actions":[],"transitions":[{"state_name":"warm"}]},{"name":"warm","actions":[{"read_only":{}}],"transitions":[{"state_name":"delete","conditions":{"min_index_age":"7d"}}]},{"name":"delete","actions":[{"delete":{}}],"transitions":[]}]`, "", "",
		},
		{
			"what has no equal is told", `{"hot":{"actions":{"downsample":{"fixed_interval":"1h"},"rollover":{"max_primary_shard_docs":7,"max_docs":9}}},"frozen":{"min_age":"1d","actions":{"searchable_snapshot":{"snapshot_repository":"r"}}},
 "cold":{"min_age":"1d","actions":{"freeze":{},"migrate":{"enabled":false},"allocate":{"require":{"data":"cold"}}}}}`,
			`[{"name":"hot","actions":[{"rollover":{"min_doc_count":9}}],"transitions":[]}]`,
			"ism-action hot.downsample, ism-option hot.rollover.max_primary_shard_docs, ism-action cold.freeze, ism-action cold.migrate, ism-option cold.allocate.require, ism-phase cold, ism-action frozen.searchable_snapshot, ism-phase frozen", "",
		},
		{"nothing rolls over earlier than at the source", `{"hot":{"actions":{"rollover":{"max_primary_shard_docs":7}}}}`, "", "", "immediately"},
		{"nothing is deleted earlier than at the source", `{"delete":{"min_age":"7d","actions":{"wait_for_snapshot":{"policy":"nightly"},"delete":{}}}}`, "", "", "only after a snapshot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := planOf(t, openSearch, all, `{"index_lifecycle":{"policies":{"p":{"policy":{"phases":`+c.phases+`}}}}}`)
			body, left := lookup(plan, "ilm-policy p")
			if c.left != "" {
				if !strings.Contains(left, c.left) {
					t.Errorf("left out because %q", left)
				}
				return
			}
			policy := body.(map[string]any)["policy"].(map[string]any)
			if !reflect.DeepEqual(policy["states"], value(t, c.body)) || policy["default_state"] != "hot" || policy["ism_template"] != nil {
				t.Errorf("%v", policy)
			}
			var changes []string
			for _, ch := range plan.Objects[0].Changes {
				changes = append(changes, ch.Rule+" "+ch.Path)
			}
			if got := strings.Join(changes, ", "); got != c.changes {
				t.Errorf("changes %s, want %s", got, c.changes)
			}
		})
	}
}

func TestAPolicyTellsWhichIndicesItIsFor(t *testing.T) {
	plan := planOf(t, openSearch, all, `{"index_lifecycle":{"policies":{"p":{"policy":{"phases":{}}}}},
 "templates":{"a":{"index_patterns":["a-*"],"settings":{"index":{"lifecycle":{"name":"p"}}}},"b":{"index_patterns":["b-*"],"settings":{"index":{"lifecycle":{"name":"other"}}}}},
 "index_template":{"index_template":{"c":{"index_patterns":["c-*"],"composed_of":["x"]}}},"component_template":{"component_template":{"x":{"template":{"settings":{"index.lifecycle.name":"p"}}}}}}`)
	for _, o := range plan.Objects {
		if o.Kind == Policy && (len(o.Changes) != 1 || !strings.HasSuffix(o.Changes[0].Detail, "match a-*, c-*")) {
			t.Errorf("%+v", o.Changes)
		}
	}
}

// FuzzGlobals: whatever a snapshot says, there is an error or a plan of valid JSON.
func FuzzGlobals(f *testing.F) {
	files, err := filepath.Glob("testdata/globals/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(sections(f, string(b))["meta-data"]))
	}
	f.Add(`{"index_lifecycle":{"policies":{"p":{"policy":{"phases":{"hot":{"actions":{"rollover":null}}}}}}},"templates":{"a":{"mappings":[[{}]],"settings":{"a":[{}]}}}}`)
	f.Fuzz(func(t *testing.T, in string) {
		defer fuzzing.Bounded(t, len(in))()
		var s map[string]json.RawMessage
		if json.Unmarshal([]byte(in), &s) != nil {
			return
		}
		g, err := ParseGlobals(s)
		if err != nil {
			return
		}
		plan, err := ConvertGlobals(openSearch, g, Selection{Pipelines: true, Scripts: true, Policies: true, Managed: true})
		if err != nil {
			return
		}
		for _, o := range plan.Objects {
			if !json.Valid(o.Body) {
				t.Errorf("%s: %s", o.Label(), o.Body)
			}
		}
	})
}

// TestGlobals_TheTableOfTheStateIsComplete: docs/TEMPLATES.md names every part that the program knows, and no other.
func TestGlobals_TheTableOfTheStateIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../../docs/TEMPLATES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Everything in the state of a cluster\n")
	text, _, _ = strings.Cut(text, "\n## ")
	sections, indices, found := strings.Cut(text, "| index | becomes |")
	if !found {
		t.Fatal("no table of indices")
	}
	named := func(table string) (names []string) {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| `") {
				continue
			}
			cell, _, _ := strings.Cut(line[2:], " | ")
			for name := range strings.SplitSeq(cell, ", ") {
				names = append(names, strings.Trim(name, "`"))
			}
		}
		slices.Sort(names)
		return names
	}
	want := slices.Concat(ownSections, keys(readers), keys(otherReasons))
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(named(sections), want) {
		t.Errorf("sections\n%q, want\n%q", named(sections), want)
	}
	want = nil
	for _, s := range systemIndices {
		want = append(want, s.prefix)
	}
	slices.Sort(want)
	if got := named(indices); !slices.Equal(got, want) {
		t.Errorf("indices\n%q, want\n%q", got, want)
	}
}
