package metadata

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestGlobals_AddStored: documents of the policies' index are input like all of a snapshot.
func TestGlobals_AddStored(t *testing.T) {
	for _, c := range []struct {
		name, id, source string
		corrupt          bool
		policies, others int
		managed          string
	}{
		{"a policy", "p", `{"policy":{"states":[]}}`, false, 1, 0, ""},
		{"an index that is managed", "u1", `{"managed_index":{"index":"x","policy_id":"p"}}`, false, 0, 0, "p"},
		{"one without a policy", "u1", `{"managed_index":{"index":"x"}}`, false, 0, 0, ""},
		{"a rollup job", "r", `{"rollup":{}}`, false, 0, 1, ""},
		{"a transform", "t", `{"transform":{}}`, false, 0, 1, ""},
		{"a snapshot policy", "daily-sm-policy", `{"sm_policy":{"name":"daily"}}`, false, 0, 1, ""},
		{"the state of a job", "u1#metadata", `{"managed_index_metadata":{}}`, false, 0, 0, ""},
		{"null", "n", `null`, false, 0, 0, ""},
		{"no object", "n", `[1]`, true, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Globals{Objects: map[Kind]map[string]json.RawMessage{}}
			err := g.AddStored(c.id, json.RawMessage(c.source))
			if errors.Is(err, fault.ErrCorrupt) != c.corrupt || len(g.Objects[StatePolicy]) != c.policies || len(g.Others) != c.others || g.Managed["u1"] != c.managed {
				t.Errorf("%v, %+v", err, g)
			}
		})
	}
}

// FuzzGlobals_AddStored: whatever a document of that index holds, there is an error or a plan of valid JSON.
func FuzzGlobals_AddStored(f *testing.F) {
	f.Add(`{"policy":{"description":"d","states":[{"name":"hot","actions":[{"rollover":{}},{"snapshot":{"repository":"r"}}],"transitions":[{"conditions":{"min_rollover_age":"1d"}}]}],"ism_template":[{"index_patterns":["a*"]}]}}`)
	f.Add(`{"policy":{"states":[1,{"actions":[1]}],"ism_template":{"index_patterns":[1]}}}`)
	f.Add(`{"policy":[]}`)
	f.Fuzz(func(t *testing.T, in string) {
		g := Globals{Objects: map[Kind]map[string]json.RawMessage{}}
		if g.AddStored("p", json.RawMessage(in)) != nil {
			return
		}
		plan, err := ConvertGlobals(openSearch, g, Selection{Policies: true, Attach: true})
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
