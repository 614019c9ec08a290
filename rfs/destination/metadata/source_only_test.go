package metadata

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestSourceOnly_IsReportedAndLossyWithoutItsMapping(t *testing.T) {
	for _, c := range []struct {
		name, setting, mapping string
		reported, loses        bool
	}{
		{"with its mapping", "true", `{"properties":{"n":{"type":"integer"}}}`, true, false},
		{"without", "true", `{"enabled":false,"_meta":{}}`, true, true},
		{"an ordinary index", "", `{"properties":{"n":{"type":"integer"}}}`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Index{Name: "i", Settings: map[string]string{"index.number_of_shards": "1"}, Mappings: []Mapping{{"_doc", json.RawMessage(c.mapping)}}}
			if c.setting != "" {
				in.Settings["index.source_only"] = c.setting
			}
			body, changes, err := Convert(os219, Wanted{Name: "i", Index: in})
			if err != nil {
				t.Fatal(err)
			}
			is := func(x Change) bool { return x.Rule == "source-only" }
			if got := slices.ContainsFunc(changes, is); got != c.reported {
				t.Errorf("reported %t: %+v", got, changes)
			}
			if got := slices.ContainsFunc(changes, func(x Change) bool { return is(x) && x.Loses() }); got != c.loses {
				t.Errorf("loses %t: %+v", got, changes)
			}
			mappings := tree(t, body)["mappings"].(map[string]any)
			if mappings["enabled"] != nil || (mappings["properties"] != nil) == c.loses {
				t.Errorf("%s", body)
			}
		})
	}
}
