package metadata

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

func mappings(bodies ...string) (all []Mapping) {
	for i := 0; i < len(bodies); i += 2 {
		all = append(all, Mapping{Type: bodies[i], Body: json.RawMessage(bodies[i+1])})
	}
	return all
}

func TestNewJoin(t *testing.T) {
	for _, c := range []struct {
		name     string
		mappings []Mapping
		want     string // relations; "" for none
		says     string // of the error
	}{
		{"no parents", mappings("a", `{"properties":{"relation":{"type":"string"}}}`, "b", `{}`), "", ""},
		{"three generations and a brother", mappings("a", `{}`, "b", `{"_parent":{"type":"a"}}`, "c", `{"_parent":{"type":"b"}}`, "d", `{"_parent":{"type":"a"}}`), `{"a":["b","d"],"b":["c"]}`, ""},
		{"parents without documents", mappings("b", `{"_parent":{"type":"a"}}`), `{"a":["b"]}`, ""},
		{"the field is there", mappings("a", `{"properties":{"relation":{"type":"string"}}}`, "b", `{"_parent":{"type":"a"}}`), "", "another name"},
		{"a field below it is there", mappings("b", `{"_parent":{"type":"a"},"properties":{"relation.x":{"type":"string"}}}`), "", "another name"},
		{"a type that is its own parent", mappings("a", `{"_parent":{"type":"a"}}`), "", "own ancestor"},
		{"a circle", mappings("a", `{"_parent":{"type":"b"}}`, "b", `{"_parent":{"type":"a"}}`), "", "own ancestor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := NewJoin("relation", c.mappings)
			if c.says != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || (j == nil) != (c.want == "") {
				t.Fatalf("%+v, %v", j, err)
			}
			if j == nil {
				return
			}
			if got, err := json.Marshal(j.relations()); err != nil || string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestAJoinFieldTakesThePlaceOfParents(t *testing.T) {
	x := Index{Name: "family", Settings: map[string]string{"index.version.created": "2040699"}, Mappings: mappings(
		"company", `{"properties":{"n":{"type":"long"}}}`, "person", `{"_parent":{"type":"company"},"_routing":{"required":true}}`)}
	j, err := NewJoin("relation", x.Mappings)
	if err != nil {
		t.Fatal(err)
	}
	body, changes, err := Convert(target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}, Wanted{Name: "family", Index: x, Join: j})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Mappings json.RawMessage `json:"mappings"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	const want = `{"properties":{"n":{"type":"long"},"relation":{"relations":{"company":["person"]},"type":"join"}}}`
	if string(got.Mappings) != want {
		t.Errorf("%s, want %s", got.Mappings, want)
	}
	reported := false
	for _, c := range changes {
		if c.Rule == "parent-field" || c.Loses() {
			t.Errorf("%+v", c)
		}
		reported = reported || c.Rule == "parent-join" && strings.Contains(c.Detail, `{"company":["person"]}`) && strings.Contains(c.Detail, "<type>#<id>")
	}
	if !reported {
		t.Errorf("the relation is not reported: %+v", changes)
	}
}
