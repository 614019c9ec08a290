package objects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/objects"
)

func TestFieldDifferences(t *testing.T) {
	const asked = `{"settings":{},"mappings":{"_meta":{"a":1},"dynamic":"strict","properties":{
		"title":{"type":"text","fields":{"raw":{"type":"keyword","ignore_above":256}}},"n":{"type":"integer"},"tag":{"type":"keyword"},
		"at":{"properties":{"geo":{"type":"geo_point"},"name.first":{"type":"text"}}},"many":{"type":"nested","properties":{"k":{"type":"long"}}},
		"off":{"type":"object","enabled":false},"other":{"type":"alias","path":"at.geo"}}}}`
	const same = `"title":{"type":"text","fields":{"raw":{"type":"keyword"}}},"n":{"type":"integer","doc_values":false},"tag":{"type":"keyword"},
		"at":{"type":"object","properties":{"geo":{"type":"geo_point"},"name":{"properties":{"first":{"type":"text"}}}}},"many":{"type":"nested","properties":{"k":{"type":"long"}}},
		"off":{"type":"object","properties":{"dynamic":{"type":"long"}}},"other":{"type":"alias","path":"at.geo"}`
	for _, c := range []struct {
		name, mapping string
		want          string
	}{
		{"equal, other options and no _meta", `{"properties":{` + same + `}}`, ""},
		{"further fields of the target", `{"_meta":{"b":2},"properties":{"dynamic":{"type":"long"},` + same + `}}`, ""},
		{"dynamic types", `{"properties":{` + strings.NewReplacer(`"n":{"type":"integer","doc_values":false}`, `"n":{"type":"long"}`, `"tag":{"type":"keyword"}`, `"tag":{"type":"text","fields":{"keyword":{"type":"keyword"}}}`).Replace(same) + `}}`,
			"n integer/long at n; tag keyword/text at tag"},
		{"no mapping at all", ``, "at object/ at at; many nested/ at many; n integer/ at n; off object/ at off; other alias/ at at.geo; tag keyword/ at tag; title text/ at title"},
		{"a part of an object and a further field are missing", `{"properties":{` + strings.NewReplacer(`,"fields":{"raw":{"type":"keyword"}}`, ``, `"name":{"properties":{"first":{"type":"text"}}}`, `"x":{"type":"long"}`).Replace(same) + `}}`,
			"at.name object/ at at.name; title.raw keyword/ at title"},
		{"a target that maps no further fields", `{"dynamic":false,"properties":{"tag":{"type":"text"}}}`, "tag keyword/text at tag"},
		{"an object that maps no further fields", `{"properties":{` + strings.Replace(same, `"type":"object","properties":{"geo":{"type":"geo_point"},`, `"dynamic":"false","properties":{`, 1) + `}}`, ""},
		{"an object that maps further fields, in one that does not", `{"dynamic":false,"properties":{"at":{"dynamic":true}}}`, "at.geo geo_point/ at at.geo; at.name object/ at at.name"},
		{"below a mapping type", `{"doc":{"dynamic":"false","properties":{` + strings.Replace(same, `"n":{"type":"integer"`, `"n":{"type":"long"`, 1) + `}}}`, "n integer/long at n"},
		{"nested is not an object", `{"properties":{` + strings.Replace(same, `"type":"nested",`, ``, 1) + `}}`, "many nested/object at many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := objects.FieldDifferences([]byte(asked), []byte(c.mapping))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				got = append(got, fmt.Sprintf("%s %s/%s at %s", d.Field, d.Want, d.Has, strings.Join(d.Path, ".")))
			}
			if is := strings.Join(got, "; "); is != c.want {
				t.Errorf("%s\nwant %s", is, c.want)
			}
		})
	}
	both, err := objects.FieldDifferences([]byte(`{"mappings":{"dynamic":false,"properties":{"n":{"type":"long"}}}}`), []byte(`{"dynamic":false}`))
	if err != nil || len(both) != 1 || both[0].Field != "n" {
		t.Errorf("of a mapping that maps no further fields either: %+v, %v", both, err)
	}
	if _, err := objects.FieldDifferences([]byte(`{}`), []byte(`[`)); err == nil {
		t.Error("no JSON is not an error")
	}
}

func TestFieldTypes(t *testing.T) {
	got, err := objects.FieldTypes([]byte(`{"mappings":{"properties":{"a.b":{"type":"date"},"t":{"type":"text","fields":{"raw":{"type":"keyword"}}},"n":{"type":"nested","properties":{"k":{"type":"long"}}}}}}`))
	if want := "map[a:object a.b:date n:nested n.k:long t:text t.raw:keyword]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	if _, err := objects.FieldTypes([]byte(`[`)); err == nil {
		t.Error("no JSON is not an error")
	}
}
