package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// picky refuses bodies that hold a word, one after the other, and keeps the last body.
type picky struct {
	refuse []refusal
	body   string
	tries  int
}

type refusal struct{ word, reason string }

func (p *picky) IndexExists(context.Context, string) (bool, error) { return false, nil }

func (p *picky) CreateIndex(_ context.Context, _ string, body []byte) error {
	p.body = string(body)
	p.tries++
	for _, r := range p.refuse {
		if strings.Contains(p.body, r.word) {
			return &fault.StatusError{Status: 400, Type: "mapper_parsing_exception", Reason: r.reason}
		}
	}
	return nil
}

func TestWhatTheTargetDoesNotKnowIsLeftOutAndTold(t *testing.T) {
	index := Index{
		Settings: map[string]string{"index.knn": "true"},
		Mappings: []Mapping{{"_doc", json.RawMessage(`{"date_detection":true,"properties":{
 "v":{"type":"knn_vector","dimension":3},"a":{"type":"alias","path":"v"},"n":{"type":"long","new_option":7},
 "o":{"properties":{"t":{"type":"text","odd":[1],"fields":{"hash":{"type":"murmur3"},"raw":{"type":"keyword"}}}}},"x":{"type":"unheard_of","p":1}}}`)}},
	}
	c := &picky{refuse: []refusal{
		{`"index.knn"`, "unknown setting [index.knn] please check that any required plugins are installed"},
		{"knn_vector", "Failed to parse mapping [_doc]: No handler for type [knn_vector] declared on field [v]"},
		{"unheard_of", "No handler for type [unheard_of] declared on field [x]"},
		{"murmur3", "No handler for type [murmur3] declared on field [hash]"},
		{"new_option", "unknown parameter [new_option] on mapper [n] of type [long]"},
		{"odd", "Mapping definition for [t] has unsupported parameters:  [odd : [1]]"},
		{"date_detection", "Root mapping definition has unsupported parameters:  [date_detection : true]"},
	}}
	r, err := Ensure(t.Context(), c, os219, []Wanted{{Name: "i", Index: index}})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, []byte(`{"settings":{},"mappings":{"properties":{"v":{"type":"object","enabled":false},"n":{"type":"long"},
 "o":{"properties":{"t":{"type":"text","fields":{"raw":{"type":"keyword"}}}}},"x":{"type":"object","enabled":false}}}}`))
	if got := tree(t, []byte(c.body)); !reflect.DeepEqual(got, want) {
		t.Errorf("created %s", c.body)
	}
	for _, path := range []string{"index.knn", "v", "a", "n", "o.t", "o.t.hash", "x", "date_detection"} {
		if !slices.ContainsFunc(r.Changes, func(ch Change) bool { return ch.Path == path }) {
			t.Errorf("nothing is told of %s: %+v", path, r.Changes)
		}
	}
}

func TestRecoverySourceOptionsAreKeptWhereTheTargetKnowsThem(t *testing.T) {
	source := `{"excludes":["body"],"recovery_source_enabled":true,"recovery_source_includes":["body"],"recovery_source_excludes":["vector"]}`
	index := Index{Mappings: []Mapping{{"_doc", json.RawMessage(`{"_source":` + source + `,"properties":{"body":{"type":"text"}}}`)}}}
	kept, dropped := `{"_source":`+source+`,"properties":{"body":{"type":"text"}}}`, `{"_source":{"excludes":["body"]},"properties":{"body":{"type":"text"}}}`
	for _, c := range []struct {
		name   string
		refuse []refusal
		want   string
	}{
		{"a target that knows them", nil, kept},
		{"a target that names each in turn", []refusal{
			{"recovery_source_enabled", "unknown parameter [recovery_source_enabled] on mapper [_source] of type [_source]"},
			{"recovery_source_includes", "unknown parameter [recovery_source_includes] on mapper [_source] of type [_source]"},
			{"recovery_source_excludes", "unknown parameter [recovery_source_excludes] on mapper [_source] of type [_source]"},
		}, dropped},
		{"an old target that names all", []refusal{
			{"recovery_source", "Mapping definition for [_source] has unsupported parameters:  [recovery_source_includes : [body]] [recovery_source_excludes : [vector]] [recovery_source_enabled : true]"},
		}, dropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := &picky{refuse: c.refuse}
			r, err := Ensure(t.Context(), target, os219, []Wanted{{Name: "i", Index: index}})
			if err != nil {
				t.Fatal(err)
			}
			got, want := tree(t, []byte(target.body)), tree(t, []byte(`{"settings":{},"mappings":`+c.want+`}`))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("created %s", target.body)
			}
			if told := slices.ContainsFunc(r.Changes, func(ch Change) bool { return strings.HasPrefix(ch.Path, "_source.recovery_source") }); told != (c.want == dropped) {
				t.Errorf("changes: %+v", r.Changes)
			}
		})
	}
}

func TestARefusalThatTeachesNothingIsFinal(t *testing.T) {
	for _, reason := range []string{
		"analyzer [a] has not been configured in mappings",
		"No handler for type [text] declared on field [gone]", // and again after it was left out
	} {
		c := &picky{refuse: []refusal{{"", reason}}}
		_, err := Ensure(t.Context(), c, os219, []Wanted{{Name: "i"}})
		if err == nil || !strings.Contains(err.Error(), reason) || c.tries > 2 {
			t.Errorf("%v after %d tries", err, c.tries)
		}
	}
	if newUnsupportedFeatures().record(errors.New("No handler for type [x] declared on field [y]")) || newUnsupportedFeatures().record(fault.ErrUnavailable) {
		t.Error("learned from an error that is no answer of the target")
	}
}

func TestDatePatternsOfJodaAreWrittenForJava(t *testing.T) {
	for _, c := range []struct{ created, in, want string }{
		{"1070699", "dateOptionalTime", "date_optional_time||epoch_millis"},
		{"1070699", "YYYY/MM/dd||epoch_millis", "yyyy/MM/dd||epoch_millis"},
		{"2040699", "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
		{"5061699", "xxxx-'W'ww-e 'YZ' Z||strict_date_optional_time", "YYYY-'W'ww-e 'YZ' XX||strict_date_optional_time"},
		{"6082399", "YYYY ZZZ||date||basicDate", "yyyy VV||date||basic_date"},
		{"6082399", "8YYYY||Z", "YYYY||Z"},
		{"7100299", "YYYY Z", "YYYY Z"},
		{"136408127", "YYYY Z", "YYYY Z"},
		{"8512000", "strictDateOptionalTime||epoch_millis", "strict_date_optional_time||epoch_millis"},
	} {
		t.Run(c.created+" "+c.in, func(t *testing.T) {
			f, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			in := Index{Settings: map[string]string{"index.version.created": c.created},
				Mappings: []Mapping{{"t", json.RawMessage(`{"properties":{"d":{"type":"date","format":` + string(f) + `}}}`)}}}
			body, _, err := Convert(os219, Wanted{Name: "i", Index: in})
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, body)["mappings"].(map[string]any)["properties"].(map[string]any)["d"].(map[string]any)["format"]
			if got != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}
