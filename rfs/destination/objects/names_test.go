package objects_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

func TestCheckName_OneObjectOnly(t *testing.T) {
	any := []string{"index", string(metadata.DataStream), string(metadata.LegacyTemplate), string(metadata.ComponentTemplate), string(metadata.IndexTemplate),
		string(metadata.Pipeline), string(metadata.Script), string(metadata.Policy), string(metadata.StatePolicy)}
	for _, kind := range any {
		for _, name := range []string{"", "*", "a*", "a,b", "_all", "-a", "+a", "_a", "a?", "<a-{now/d}>", "%2A", "a%2Cb", "a/b", `a\b`, "..", ".", "a\x00", "a\n", "\xff", strings.Repeat("a", 256)} {
			if err := objects.CheckName(kind, name); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
		for _, name := range []string{"a", ".ds-logs-2024.01.01-000001", "logs_1-é", "9", strings.Repeat("a", 255)} {
			if err := objects.CheckName(kind, name); err != nil {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
	}
	for _, name := range []string{"Upper", "remote:a", "a b"} {
		if objects.CheckName("index", name) == nil || objects.CheckName(string(metadata.Pipeline), name) != nil {
			t.Errorf("%q", name)
		}
	}
}

func TestObject_AnotherAnswerIsRefused(t *testing.T) {
	for _, c := range []struct {
		kind   metadata.Kind
		answer string
		want   string // "": refused
	}{
		{metadata.LegacyTemplate, `{"a":{"order":1}}`, `{"order":1}`},
		{metadata.LegacyTemplate, `{"a":{"order":1},"b":{}}`, ""},
		{metadata.Pipeline, `{"b":{}}`, ""},
		{metadata.Pipeline, `{}`, ""},
		{metadata.ComponentTemplate, `{"component_templates":[{"name":"a","component_template":{"x":1}}]}`, `{"x":1}`},
		{metadata.ComponentTemplate, `{"component_templates":[{"name":"a"},{"name":"b"}]}`, ""},
		{metadata.IndexTemplate, `{"index_templates":[{"name":"a","index_template":{"x":1}}]}`, `{"x":1}`},
		{metadata.IndexTemplate, `{"index_templates":[{"name":"b","index_template":{"x":1}}]}`, ""},
		{metadata.IndexTemplate, `[]`, ""},
		{metadata.Policy, `{"_id":"a","policy":{"x":1}}`, `{"x":1}`},
		{metadata.Policy, `{"policies":[{"_id":"a"}]}`, ""},
		{metadata.StatePolicy, `{"_id":"a","policy":{"x":1}}`, `{"x":1}`},
		{metadata.Script, `{"_id":"a","found":true,"script":{"x":1}}`, `{"x":1}`},
		{metadata.Setting, `{"a":{}}`, ""},
	} {
		is, err := objects.Object(c.kind, "a", []byte(c.answer))
		if string(is) != c.want && c.want != "" || (err == nil) != (c.want != "") {
			t.Errorf("%s %s: %s, %v", c.kind, c.answer, is, err)
		}
	}
}
