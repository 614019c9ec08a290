package oscms

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// TestTheStrictMappingNamesEveryField: an item with an unmapped field would be refused.
func TestTheStrictMappingNamesEveryField(t *testing.T) {
	var m struct {
		Dynamic    string         `json:"dynamic"`
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal([]byte(tasksMapping), &m); err != nil || m.Dynamic != "strict" {
		t.Fatalf("%+v %v", m, err)
	}
	fields := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cms.Item]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		fields++
		if m.Properties[name] == nil {
			t.Errorf("field %s is not mapped", name)
		}
	}
	if len(m.Properties) != fields {
		t.Errorf("%d fields are mapped, an item has %d", len(m.Properties), fields)
	}
	parsed, err := decodeMapping(json.RawMessage(tasksMapping))
	if err == nil {
		err = parsed.check()
	}
	if err != nil {
		t.Error(err)
	}
}
