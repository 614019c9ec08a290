package objects_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
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
	index := metadata.Index{
		Settings: map[string]string{"index.knn": "true"},
		Mappings: []metadata.Mapping{{Type: "_doc", Body: json.RawMessage(`{"date_detection":true,"properties":{
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
	r, err := objects.Ensure(t.Context(), c, openSearch, []metadata.Wanted{{Name: "i", Index: index}})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, []byte(`{"settings":{},"mappings":{"properties":{"v":{"type":"object","enabled":false},"n":{"type":"long"},
 "o":{"properties":{"t":{"type":"text","fields":{"raw":{"type":"keyword"}}}}},"x":{"type":"object","enabled":false}}}}`))
	if got := tree(t, []byte(c.body)); !reflect.DeepEqual(got, want) {
		t.Errorf("created %s", c.body)
	}
	for _, path := range []string{"index.knn", "v", "a", "n", "o.t", "o.t.hash", "x", "date_detection"} {
		if !slices.ContainsFunc(r.Changes, func(ch metadata.Change) bool { return ch.Path == path }) {
			t.Errorf("nothing is told of %s: %+v", path, r.Changes)
		}
	}
}

func TestRecoverySourceOptionsAreKeptWhereTheTargetKnowsThem(t *testing.T) {
	source := `{"excludes":["body"],"recovery_source_enabled":true,"recovery_source_includes":["body"],"recovery_source_excludes":["vector"]}`
	index := metadata.Index{Mappings: []metadata.Mapping{{Type: "_doc", Body: json.RawMessage(`{"_source":` + source + `,"properties":{"body":{"type":"text"}}}`)}}}
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
			r, err := objects.Ensure(t.Context(), target, openSearch, []metadata.Wanted{{Name: "i", Index: index}})
			if err != nil {
				t.Fatal(err)
			}
			got, want := tree(t, []byte(target.body)), tree(t, []byte(`{"settings":{},"mappings":`+c.want+`}`))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("created %s", target.body)
			}
			if told := slices.ContainsFunc(r.Changes, func(ch metadata.Change) bool { return strings.HasPrefix(ch.Path, "_source.recovery_source") }); told != (c.want == dropped) {
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
		_, err := objects.Ensure(t.Context(), c, openSearch, []metadata.Wanted{{Name: "i"}})
		if err == nil || !strings.Contains(err.Error(), reason) || c.tries > 2 {
			t.Errorf("%v after %d tries", err, c.tries)
		}
	}
	if metadata.NewUnsupported().Record(errors.New("No handler for type [x] declared on field [y]")) || metadata.NewUnsupported().Record(fault.ErrUnavailable) {
		t.Error("learned from an error that is not an answer of the target")
	}
}

// memory is a Cluster that refuses some names.
type memory map[string]error

func (m memory) IndexExists(_ context.Context, name string) (bool, error) {
	err, ok := m[name]
	return ok && err == nil, nil
}

func (m memory) CreateIndex(_ context.Context, name string, _ []byte) error {
	if err, ok := m[name]; ok {
		return err
	}
	m[name] = nil
	return nil
}

func TestEnsureTouchesNothingThatIsThere(t *testing.T) {
	raced := &fault.StatusError{Type: "resource_already_exists_exception"}
	refused := errors.New("no handler for type [x]")
	m := memory{"old": nil, "raced": raced, "bad": refused}
	r, err := objects.Ensure(t.Context(), m, openSearch, []metadata.Wanted{{Name: "old"}, {Name: "new"}, {Name: "raced"}, {Name: "bad"}, {Name: "never"}})
	if !errors.Is(err, refused) || !slices.Equal(r.Created, []string{"new"}) || !slices.Equal(r.Existed, []string{"old", "raced"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, ok := m["never"]; ok {
		t.Error("went on after an error")
	}
}
