package objects_test

import (
	"encoding/json"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

var (
	openSearch = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	all        = metadata.Selection{Pipelines: true, Scripts: true, Policies: true}
)

// planOf returns the plan for the sections of global metadata in text.
func planOf(t *testing.T, v target.Version, sel metadata.Selection, text string) metadata.GlobalPlan {
	t.Helper()
	var sections map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &sections); err != nil {
		t.Fatal(err)
	}
	g, err := metadata.ParseGlobals(sections)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := metadata.ConvertGlobals(v, g, sel)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// tree decodes a JSON object.
func tree(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}
