package metadata

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestConvertIndex_ForACollection(t *testing.T) {
	three := 3
	done, err := ConvertIndex(aoss, Wanted{Name: "i", Overrides: Overrides{Replicas: &three}, Index: Index{Settings: map[string]string{
		"index.number_of_shards": "5", "index.number_of_replicas": "1", "index.refresh_interval": "30s", "index.codec": "best_compression", "index.sort.field": "at", "index.sort.order": "asc",
		"index.analysis.analyzer.a.type": "standard", "index.mapping.total_fields.limit": "2000", "index.hidden": "true",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var is struct{ Settings map[string]any }
	if err := json.Unmarshal(done.Body, &is); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"index.analysis.analyzer.a.type": "standard", "index.mapping.total_fields.limit": "2000"}; len(is.Settings) != len(want) || is.Settings["index.analysis.analyzer.a.type"] != "standard" || is.Settings["index.mapping.total_fields.limit"] != "2000" {
		t.Errorf("settings %v, want %v", is.Settings, want)
	}
	var dropped []string
	for _, c := range done.Changes {
		if c.Rule == "collection-setting" {
			dropped = append(dropped, c.Path)
		}
	}
	if !slices.Contains(dropped, "index.number_of_shards") || !slices.Contains(dropped, "index.sort.field") || !slices.Contains(dropped, "index.number_of_replicas") {
		t.Errorf("dropped %q", dropped)
	}
}

func TestConvertGlobals_ForACollection(t *testing.T) {
	all := Globals{Objects: map[Kind]map[string]json.RawMessage{
		LegacyTemplate:    {"old": json.RawMessage(`{"index_patterns":["a-*"],"settings":{"index.number_of_shards":"1"}}`)},
		ComponentTemplate: {"part": json.RawMessage(`{"template":{"settings":{"index":{"number_of_shards":"2","mapping":{"total_fields":{"limit":"5"}}}}}}`)},
		IndexTemplate: {
			"plain":  json.RawMessage(`{"index_patterns":["b-*"],"composed_of":["part"]}`),
			"stream": json.RawMessage(`{"index_patterns":["c-*"],"data_stream":{}}`),
		},
		Pipeline: {"p": json.RawMessage(`{"processors":[]}`)},
	}}
	plan, err := ConvertGlobals(aoss, all, Selection{Pipelines: true})
	if err != nil {
		t.Fatal(err)
	}
	var made, left []string
	for _, o := range plan.Objects {
		made = append(made, string(o.Kind)+" "+o.Name)
	}
	for _, o := range plan.Left {
		left = append(left, string(o.Kind)+" "+o.Name)
	}
	slices.Sort(made)
	slices.Sort(left)
	if !slices.Equal(made, []string{string(ComponentTemplate) + " part", string(IndexTemplate) + " plain"}) || len(left) != 3 {
		t.Errorf("made %q, left %q", made, left)
	}
}
